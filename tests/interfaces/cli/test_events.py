"""List and follow events from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path


def test_nothing_has_happened_at_first(prowess, workspace):
    assert prowess("events").out == "No events yet.\n"
    assert prowess("events", "--json").out == ""


def test_events_are_told_in_order_with_their_fields(prowess, sample):
    prowess("enable", "commit-messages")
    prowess("load", "commit-messages")
    prowess("disable", "commit-messages")
    told = prowess("events", "--json").lines
    assert [event["number"] for event in told] == [1, 2, 3]
    assert [event["name"] for event in told] == ["skills_state_changed", "skill_loaded", "skills_state_changed"]
    assert told[0]["data"]["enabled_skills"][0]["slug"] == "commit-messages"
    shown = prowess("events").out.splitlines()
    assert shown[0].split() == ["no.", "when", "event", "skill", "status", "detail"]
    assert "skill_loaded          commit-messages  ok" in shown[2]
    assert "none             0 enabled" in shown[3]


def test_the_latest_are_shown_also_of_one_name(prowess, sample):
    for _ in range(4):
        prowess("enable", "commit-messages")
        prowess("disable", "commit-messages")
    prowess("load", "commit-messages")
    assert [event["number"] for event in prowess("events", "--limit", "2", "--json").lines] == [8, 9]
    one = prowess("events", "--limit", "2", "--name", "skills_state_changed", "--json").lines
    assert [event["number"] for event in one] == [7, 8]
    assert [event["number"] for event in prowess("events", "--after", "3", "--limit", "2", "--json").lines] == [4, 5]


def test_a_name_that_no_event_has_is_refused(prowess, workspace):
    assert prowess("events", "--name", "skill_eaten").code == 2


def test_ctrl_c_ends_following_quietly(prowess, sample):
    prowess("enable", "commit-messages")
    command = [str(Path(sys.executable).parent / "prowess"), "events", "--follow", "--after", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["number"] == 1
        prowess("disable", "commit-messages")
        assert json.loads(process.stdout.readline())["number"] == 2
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "")
