"""The list of planted faults stays true as the code moves; `make mutants` plants them."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from planted import ROOT, all_faults

FAULTS = all_faults()


def test_there_are_enough_faults_and_none_twice():
    assert len(FAULTS) >= 100
    assert len({(fault.function, fault.fault, fault.text) for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.function}: {fault.what}")
def test_each_can_be_planted_and_names_tests_that_exist(fault):
    compile(fault.planted(), fault.file, "exec")
    assert fault.text != fault.fault
    for test in fault.tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text()
        assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE)
