#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/run.h"

// Runs the stiefel command many times and starts LibTorch, which takes most of a short command's time, once.
// A request is a line of JSON with the arguments, the folder, the environment and the files for what is
// printed; the command runs in a process forked for it, and the answer is its exit status, or minus the
// signal that ended it. With arguments of its own this program is the stiefel command, as which some commands
// start it again.

namespace {

void redirect(const std::string& file, int descriptor) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (opened < 0 || ::dup2(opened, descriptor) < 0) std::abort();
  ::close(opened);
}

[[noreturn]] void serve(const nlohmann::json& request) {
  ::close(STDIN_FILENO);
  ::open("/dev/null", O_RDONLY);
  redirect(request.at("stdout"), STDOUT_FILENO);
  redirect(request.at("stderr"), STDERR_FILENO);
  if (::chdir(request.at("folder").get<std::string>().c_str()) != 0) std::abort();
  ::clearenv();
  for (const auto& [name, value] : request.at("environment").items()) {
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  }
  std::vector<std::string> words{"stiefel"};
  for (const auto& word : request.at("words")) words.push_back(word);
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::exit(stiefel::app::run(static_cast<int>(words.size()), arguments.data()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return stiefel::app::run(argc, argv);
  for (std::string line; std::getline(std::cin, line);) {
    const auto child = ::fork();
    if (child == 0) serve(nlohmann::json::parse(line));
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) < 0) return 1;
    const auto answer = std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)) + "\n";
    if (::write(STDOUT_FILENO, answer.data(), answer.size()) < 0) return 1;
  }
}
