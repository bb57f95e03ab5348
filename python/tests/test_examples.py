"""The longer Python examples run, in their quick form."""
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
NUMBER = r"\d+\.\d+"


def run(name, *arguments):
    command = [sys.executable, "-B", str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def quantization_rotations(folder, *arguments):
    """Runs the example on a text that is the same everywhere."""
    text = folder / "text"
    text.write_text("".join(f"{i} times {i} is {i * i}.\n" for i in range(1000)))
    return run("quantization_rotations.py", "--quick", "--threads", "1", "--text", str(text), *arguments)


def test_quantization_rotations(tmp_path):
    output = quantization_rotations(tmp_path)
    for kind in ("Hadamard", "Haar"):  # rotations leave the function of the float network unchanged
        change = re.search(rf"^float, {kind} rotations: largest change of a logit (\S+)", output, re.M)
        assert change and float(change[1]) < 1e-4, output
    assert re.search(r"^4 bits +cross-entropy +range of draws +ms per step +‖RᵀR − I‖$", output, re.M), output
    for name in ("float, no rotations", "no rotations", "the start of learning"):
        assert re.search(rf"^{name} +{NUMBER} *$", output, re.M), output
    for name in ("random Hadamard", "random Haar"):
        row = re.search(rf"^{name} +({NUMBER}) +({NUMBER}) … ({NUMBER}) *$", output, re.M)
        assert row and float(row[2]) <= float(row[1]) <= float(row[3]), output
    for name in ("compat.SGDG", "CayleySGD", "CayleyMuon"):
        row = re.search(rf"^learned, {re.escape(name)} +{NUMBER} +{NUMBER} +(\S+)$", output, re.M)
        assert row and float(row[1]) < 1e-5, output


def test_quantization_rotations_repeats_itself(tmp_path):
    first, second = (
        re.findall(
            rf"^(\S.*?) +({NUMBER})", quantization_rotations(tmp_path, "--bits", "3", "--online"), re.M
        )
        for _ in range(2)
    )
    assert first == second and len(first) >= 8


def test_certified_steps_are_of_the_same_network():
    """Every method begins with the same loss, and all but free weights end orthonormal."""
    output = run("compare_certified_steps.py", "--rounds", "1")
    tables = output.split("\n\n")
    assert len(tables) == 2, output
    for table in tables:
        rows = re.findall(rf"^\| (.+?) \| {NUMBER} \| {NUMBER} \| (\S+) \| ({NUMBER}) \|$", table, re.M)
        assert len(rows) == 6, output
        losses = [float(loss) for _, _, loss in rows]
        assert max(losses) - min(losses) < 1e-3, output
        for name, defect, _ in rows:
            assert (float(defect) > 1e-3) if "free" in name else (float(defect) < 1e-4), output
