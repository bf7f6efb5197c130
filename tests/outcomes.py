"""A pytest plugin: green means that every collected test has an outcome, and no file takes more processor time than its budget.

pytest-xdist can lose tests without failing: a worker that dies of an internal error takes its queue along, and the exit code may still be 0.
This plugin compares what was collected with what was reported, and fails the run on a crashed worker, an internal error or a test without outcome.

Processor time (of the process and its children, so that a loaded machine fails nobody) is added up by file. `budgets.toml` beside this file names
the files that may take more than the default. The twenty slowest tests are printed.

With several workers (`-n 2 --dist loadgroup --no-loadscope-reorder`) files with the largest budgets start first, so that none is left for the end. The tests of
a file stay on one worker, which makes its fixtures once, unless `budgets.toml` lists the file as one that may be split.

Set HEADWISE_TEST_TIMES=FILE to have the processor time of every test written to a JSON file.
"""

import json
import os
import resource
import tomllib
from collections import Counter
from pathlib import Path

import pytest

BUDGETS = Path(__file__).with_name("budgets.toml")
NAME = "processor_seconds"


def budgets() -> dict:
    """What `budgets.toml` says."""
    return tomllib.loads(BUDGETS.read_text(encoding="utf-8"))


def processor_seconds() -> float:
    """User and system time of this process and of the children that it has waited for."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


class Recorder:
    """In the process that runs tests: writes the processor time of each phase into its report."""

    def __init__(self) -> None:
        self.before = processor_seconds()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self):
        outcome = yield
        now = processor_seconds()
        outcome.get_result().user_properties.append((NAME, now - self.before))
        self.before = now


class Outcomes:
    """In the process that reports: what was collected, what came of it, and how long it took."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.collected: set[str] = set()
        self.reported: set[str] = set()
        self.seconds: Counter[str] = Counter()
        self.errors: list[str] = []
        self.problems: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids) -> None:
        self.collected.update(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error) -> None:
        if error:
            self.errors.append(f"worker {node.gateway.id} went down: {str(error).strip().splitlines()[-1]}")

    def pytest_internalerror(self, excrepr) -> None:
        self.errors.append(f"internal error: {str(excrepr).strip().splitlines()[-1]}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += sum(value for name, value in report.user_properties if name == NAME and isinstance(value, float))
        if report.when == "call" or report.outcome != "passed":
            self.reported.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.config.option.collectonly:
            return
        self.problems = [*self.errors, *self.without_outcome(session), *self.over_budget()]
        if self.problems and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        for problem in self.problems if terminal else ():  # here and not in the summary, which an internal error leaves out
            terminal.write_line("")
            terminal.write_line(f"FAILED RUN: {problem}", red=True)
        if "HEADWISE_TEST_TIMES" in os.environ:
            times = {test.removesuffix("@" + test.partition("::")[0]): round(spent, 3) for test, spent in self.seconds.most_common()}
            Path(os.environ["HEADWISE_TEST_TIMES"]).write_text(json.dumps(times, indent=0), encoding="utf-8")

    def without_outcome(self, session: pytest.Session) -> list[str]:
        """Tests that were collected and never reported, unless the run was told to stop at a failure."""
        stopped = bool(session.shouldfail) or bool(session.shouldstop)
        missing = sorted(self.collected - self.reported)
        if not missing or (stopped and session.testsfailed):
            return []
        return [f"{len(missing)} of {len(self.collected)} collected tests have no outcome: {', '.join(missing[:5])}{' …' if len(missing) > 5 else ''}"]

    def over_budget(self) -> list[str]:
        """Files that took more processor time than they may."""
        stated = budgets()
        by_file: Counter[str] = Counter()
        for test, spent in self.seconds.items():
            by_file[test.partition("::")[0]] += spent
        allowed = {file: stated["files"].get(file, stated["default"]) for file in by_file}
        return [
            f"{file} took {spent:.0f} s of processor time, and its budget is {allowed[file]} s. Make it faster, or mark what is a long sweep as slow."
            for file, spent in by_file.most_common()
            if spent > allowed[file]
        ]

    def pytest_terminal_summary(self, terminalreporter) -> None:
        if self.config.option.collectonly:
            return
        total = sum(self.seconds.values())
        if total > 60:
            terminalreporter.section(f"the slowest of {len(self.reported)} tests, by processor time; {total / 60:.1f} minutes in all")
            for test, spent in self.seconds.most_common(20):
                terminalreporter.write_line(f"{spent:7.1f} s  {test}")
        terminalreporter.write_line(f"{len(self.reported)} of {len(self.collected)} collected tests have an outcome")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first; the tests of a file together, unless it may be split."""
    stated = budgets()
    items.sort(key=lambda item: -stated["files"].get(item.nodeid.partition("::")[0], stated["default"]))
    for item in items:
        file = item.nodeid.partition("::")[0]
        if file not in stated["split"] and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(file))


def pytest_configure(config: pytest.Config) -> None:
    """Record in the process that runs tests, compare in the one that reports."""
    runs_tests = hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None)
    if runs_tests:
        config.pluginmanager.register(Recorder(), "processor-time")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(config), "outcomes")
