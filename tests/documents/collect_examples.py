"""Gathers the C++ blocks of Markdown pages into one program, so that every example in them is compiled and run.

    python3 collect_examples.py OUT.cpp PAGE.md…

A block is a whole program or the statements of a function; its #include lines go to the top.
"""
import os
import re
import sys


def blocks(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for match in re.finditer(r"^```cpp\n(.*?)^```$", text, re.S | re.M):
        line = text[:match.start()].count("\n") + 2
        yield line, match.group(1)


def main():
    out, pages = sys.argv[1], sys.argv[2:]
    includes = {"#include <cstdio>"}
    functions = []
    calls = []
    for page in pages:
        for line, code in blocks(page):
            includes.update(found for found in re.findall(r"^#include .*$", code, re.M))
            # A comment keeps the line numbers of the page.
            body = re.sub(r"^#include .*$", "//", code, flags=re.M)
            name = f"example_{len(functions)}"
            place = f'#line {line} "{os.path.abspath(page)}"\n'
            if "int main() {" in body:
                functions.append(place + body.replace("int main() {", f"void {name}() {{"))
            else:
                functions.append(f"void {name}() {{\n{place}{body}}}\n")
            calls.append(f'  std::puts("{os.path.basename(page)}:{line}");\n  {name}();\n')
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(sorted(includes)) + "\n\nnamespace {\n\n" + "\n".join(functions) + "\n}  // namespace\n\n")
        file.write("int main() {\n" + "".join(calls) + "}\n")


main()
