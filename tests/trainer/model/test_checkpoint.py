from foil.trainer.model.checkpoint import publish


def test_publish_removes_what_a_killed_write_left_file_or_folder(tmp_path):
    (tmp_path / ".step-00000000.json.06e141a4").write_text("{")
    (tmp_path / ".step-00000000.9d2f").mkdir()
    (tmp_path / ".step-00000000.9d2f" / "half").write_text("")
    publish(tmp_path / "step-00000000", lambda draft: (draft / "whole").touch())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000000"]
