"""How long a run may drain, and which settings a process of Ray lacks."""

from foil.cluster.deploy.ray_environment import (
    NETWORK,
    STOP_WAIT,
    WORKER,
    differing,
    drain_within_stop_wait,
    set_driver_defaults,
    stop_wait_s,
)
from tests.support.commands import foil

IN_A_JOB = {"RAY_JOB_CONFIG_JSON_ENV_VAR": "{}"}


def test_a_drain_ends_before_ray_kills():
    assert drain_within_stop_wait(8.0, {}) == 8.0
    assert drain_within_stop_wait(8.0, IN_A_JOB) == 1.0
    assert drain_within_stop_wait(0.5, IN_A_JOB) == 0.5
    assert drain_within_stop_wait(8.0, {**IN_A_JOB, STOP_WAIT: "1"}) == 0.0
    for drain_s in (0.0, 7.3, 8.0, 600.0):
        assert drain_within_stop_wait(drain_s, {**IN_A_JOB, STOP_WAIT: str(stop_wait_s(drain_s))}) == drain_s


def test_what_the_operator_set_stays():
    environment = {"RAY_health_check_period_ms": "9000"}
    set_driver_defaults(environment)
    assert differing(environment) == {"RAY_health_check_period_ms": "9000"}
    assert environment.keys() == {**NETWORK, **WORKER}.keys()


def test_ray_itself_names_the_job_variable_so():
    from ray._private.runtime_env import constants

    assert constants.RAY_JOB_CONFIG_JSON_ENV_VAR in IN_A_JOB


def test_the_commands_that_need_ray_are_in_the_help():
    shown = foil("--help").stdout
    assert all(name in shown for name in ("submit", "cancel", "logs", "watch"))
