"""Configuration of the device suite: its markers, and no tests where there is no device library."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch_npu") else ["test_*.py"]


def pytest_configure(config):
    config.addinivalue_line("markers", "soc(*names): the products a test runs on")
    config.addinivalue_line("markers", "smoke: the shortest test of an operator")
