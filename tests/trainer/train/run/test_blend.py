"""Which share of the trained weights is kept, and how the choice is drawn."""

import doctest

from foil.trainer.settings import RetentionSettings
from foil.trainer.train.run import blend
from foil.trainer.train.run.blend import BlendPoint, choose_share, draw_curve


def test_the_example_of_the_choice_holds_and_the_base_is_kept_where_nothing_else_may_be():
    assert doctest.testmod(blend).failed == 0
    line = [(0.0, 10.0, 50.0), (0.5, 40.0, 48.0), (1.0, 60.0, 45.0)]
    points = [BlendPoint(share, {"both_views": both, "plain_ndcg": plain}) for share, both, plain in line]
    assert choose_share(points, RetentionSettings(plain_loss_allowed=1)) == 0
    assert choose_share(points, RetentionSettings(plain_loss_allowed=9)) == 1


def test_the_curve_is_drawn_as_png(tmp_path):
    line = [(0.0, 10.0, 50.0), (1.0, 60.0, 45.0)]
    draw_curve([BlendPoint(s, {"both_views": b, "plain_ndcg": p}) for s, b, p in line], 1.0, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
