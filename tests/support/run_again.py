"""Run a failed test with real parts once more (``--run-again``, as ``make test`` and ``make soak`` do), and say so.

Such a test starts daemons, guests and ranks beside others on a small machine, and a run has thousands of them: one
unlucky schedule must not decide about a commit. So that this hides no fault:

- the first failure is printed in full, and the test named as one that passed only when run again;
- more than ``MOST`` such tests fail the run, because a real race or a broken machine makes many;
- tests without real parts are never run again, nor are those that took long: a hang is a fault;
- nor are those that passed and then failed to tear down: what was left behind may be another test's.

The second try sets up all fixtures again, those of the module and of the session too: what the first one broke there
would fail it as well. That, and the count over all workers, are why this is not pytest-rerunfailures.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from _pytest.runner import runtestprotocol
from worker_groups import has_real_parts

MOST = 3
"""How many tests of a run may need a second try; a worker with more gives no further one."""
LONGEST_S = 300.0
"""A test that took longer gets no second try, which could take as long again."""
_OUTCOME = "rerun"


def deserves(reports: Sequence[pytest.TestReport]) -> bool:
    """Return whether a test failed by itself, and soon enough."""
    failed = any(one.failed and one.when != "teardown" for one in reports)
    return failed and sum(one.duration for one in reports) <= LONGEST_S


class RunAgain:
    """The plugin, of each worker and of the process that collects their reports."""

    def __init__(self) -> None:
        self._tries = 0
        self._is_second = False
        self._first: dict[str, list[pytest.TestReport]] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a test; if it fails, report that as a rerun, tear everything down, and leave the second try to pytest."""
        if self._is_second or self._tries > MOST or not has_real_parts(item.nodeid):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        again = deserves(reports)
        if again:
            reports = [one for one in (*reports, self._torn_down(item)) if one.failed]
            for one in reports:
                one.outcome = _OUTCOME  # type: ignore[assignment]
        for one in reports:
            item.ihook.pytest_runtest_logreport(report=one)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if again:
            self._tries += 1
            self._is_second = True
            try:
                # The whole protocol, so that pytest-timeout starts its clock again.
                item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            finally:
                self._is_second = False
        return True

    def _torn_down(self, item: pytest.Item) -> pytest.TestReport:
        call = pytest.CallInfo.from_call(
            lambda: item.session._setupstate.teardown_exact(None),
            when="teardown",
            reraise=(KeyboardInterrupt, pytest.exit.Exception),
        )
        report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember first tries, and what failed in the end."""
        if report.outcome == _OUTCOME:
            self._first.setdefault(report.nodeid, []).append(report)
        elif report.failed:
            self._failed.add(report.nodeid)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, object] | None:
        """Report a first try as ``rerun``."""
        return (_OUTCOME, "R", ("RERUN", {"yellow": True})) if report.outcome == _OUTCOME else None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run with too many second tries."""
        if len(self._first) > MOST and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the first failures in full, then one line for each test."""
        if not self._first:
            return
        write = terminalreporter.write_line
        terminalreporter.section("first failures of tests that were run again", yellow=True)
        for name, reports in self._first.items():
            for one in reports:
                terminalreporter.write_sep("_", f"{name} ({one.when})")
                write(one.longreprtext)
                for title, text in one.sections:
                    terminalreporter.write_sep("-", title)
                    write(text)
        terminalreporter.section("tests that were run again", yellow=True)
        for name in self._first:
            if name in self._failed:
                write(f"{name}: failed twice", red=True)
            else:
                write(f"WARNING {name}: passed only when run again", yellow=True)
        if len(self._first) > MOST:
            write(f"{len(self._first)} tests were run again, more than {MOST}: this run fails", red=True)
