"""Detected objects as a table and as boxes on the pictures; images and segmentations as PNG files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.labels import Labels, read_labels
from flowengine.cli.main import main
from flowengine.cli.pictures.detections import detections_in
from flowengine.cli.pictures.palette import COLOURS, colour_of
from flowengine.cli.pictures.writing import pictures_of

Image = pytest.importorskip("PIL.Image")
Output = pytest.CaptureFixture[str]
Save = Callable[[fe.Graph], str]
BOXES: Final = [[0.1, 0.1, 0.5, 0.4], [0.5, 0.5, 0.9, 0.95], [0.0, 0.0, 1.0, 1.0]]
SCORES: Final = [0.7, 0.9, 0.2]
NAMES: Final = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
FETCHES: Final = [part for name in NAMES for part in ("-y", name)]


@pytest.fixture
def detector(save: Save) -> str:
    """Write a graph that finds the same three objects in each picture of a batch."""
    graph = fe.Graph()
    image = graph.placeholder("uint8", [None, None, None, 3], name="image")
    count = graph.ops.StridedSlice(graph.ops.Shape(image), [0], [1], [1])
    values = {"boxes": BOXES, "scores": SCORES, "classes": [3.0, 1.0, 2.0]}
    for name, value in values.items():
        constant = graph.constant([value], "float32")
        rank = np.asarray(value).ndim
        graph.ops.Tile(constant, graph.ops.ConcatV2([count, [1] * rank], 0), name=f"detection_{name}")
    graph.ops.Tile(graph.constant([3.0], "float32"), count, name="num_detections")
    return save(graph)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("a.png", "b.jpg"):
        Image.new("RGB", (200, 120), (90, 90, 90)).save(folder / name)
    return folder


def test_objects_are_a_table_with_labels(detector: str, photos: Path, tmp_path: Path, capsys: Output) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("???\ncat\ndog\nbird\n")
    line = ["run", detector, "-x", f"image={photos / 'a.png'}", *FETCHES, "--labels", str(labels)]
    assert main(line) == 0
    assert capsys.readouterr().out == (
        f"detections in {photos / 'a.png'}  2 of 3\n"
        "        0.9      1  0.500  0.500  0.900  0.950  cat\n"
        "        0.7      3  0.100  0.100  0.500  0.400  bird\n"
    )
    assert main([*line, "--top", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["detections"]
    assert [(each["label"], each["score"]) for each in found[0]] == [
        ("cat", 0.9),
        ("bird", 0.7),
        ("dog", 0.2),
    ]
    assert found[0][0]["box"] == [0.5, 0.5, 0.9, 0.95]


def test_boxes_are_drawn_on_each_picture(detector: str, photos: Path, tmp_path: Path, capsys: Output) -> None:
    drawn = tmp_path / "drawn"
    line = ["run", detector, "-x", f"image={photos / '*.jpg'}", *FETCHES, "--draw", str(drawn)]
    assert main(line) == 0
    assert capsys.readouterr().err == f"drew on 1 picture in {drawn}\n"
    pixels = np.asarray(Image.open(drawn / "b.png"))
    assert pixels.shape == (120, 200, 3)
    # On the right edges of both boxes, half way down.
    assert tuple(pixels[round(0.3 * 119), round(0.4 * 199)]) == colour_of(3)
    assert tuple(pixels[round(0.8 * 119), round(0.95 * 199)]) == colour_of(1)
    untouched = pixels[round(0.7 * 119), round(0.2 * 199)]
    assert abs(untouched.astype(int) - 90).max() < 4
    assert main(line) == failure.USAGE
    assert "b.png is there already: add --force" in capsys.readouterr().err
    assert main([*line, "--force"]) == 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["-x", "image=[[[[0, 0, 0]]]]", *FETCHES, "--draw", "new"], "no feed is a picture"),
        (["-x", "image=PHOTO", *FETCHES, "--draw", "PHOTO"], "it is a file: name a folder"),
        (["-x", "image=PHOTO", "-y", "detection_boxes", "--draw", "new"], "nothing was detected"),
    ],
)
def test_what_cannot_be_drawn(
    line: list[str], told: str, detector: str, photos: Path, capsys: Output
) -> None:
    assert main(["run", detector, *(each.replace("PHOTO", str(photos / "a.png")) for each in line)]) != 0
    assert told in capsys.readouterr().err


def test_outputs_that_do_not_fit_together_are_told() -> None:
    values = {"a/detection_boxes:0": np.zeros((1, 2, 4)), "detection_scores": np.zeros((1, 3))}
    values |= {"detection_classes:0": np.zeros((1, 3))}
    with pytest.raises(failure.CommandError, match="do not fit together"):
        detections_in(values, None)
    assert detections_in({"detection_boxes": np.zeros((1, 2, 4))}, None) is None


def test_one_picture_needs_no_batch_and_the_number_of_objects_counts() -> None:
    values = {"detection_boxes": np.zeros((3, 4)), "detection_scores": np.array([0.2, 0.9, 0.8])}
    values |= {"detection_classes": np.arange(3), "num_detections": np.array(2)}
    found = detections_in(values, Labels((), 5, is_counted=True))
    assert found is not None
    assert [[each.index for each in objects] for objects in found.pictures] == [[1, 0]]
    assert found.found == [2]


def test_each_picture_of_a_batch_has_its_own_number_of_objects() -> None:
    values = {"detection_boxes": np.zeros((3, 2, 4)), "detection_scores": np.full((3, 2), 0.9)}
    values |= {"detection_classes": np.ones((3, 2)), "num_detections": np.array([2.0, 0.0, 1.0])}
    found = detections_in(values, None)
    assert found is not None
    assert (found.found, [len(each) for each in found.pictures]) == ([2, 0, 1], [2, 0, 1])


def test_a_label_map_names_classes_by_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "map.pbtxt"
    path.write_text(
        "item {\n name: '/m/01'\n id: 2\n display_name: \"fire truck\"\n}\nitem { id: 1 name: 'cat' }\n"
    )
    labels = read_labels(str(path), None)
    assert labels is not None
    assert labels.names == ("", "cat", "fire truck")
    path.write_text("nothing: 1")
    with pytest.raises(failure.CommandError, match="no item with an id"):
        read_labels(str(path), None)


def test_neighbours_have_different_colours() -> None:
    colours = np.array([colour_of(index) for index in range(COLOURS)], np.int64)
    assert len({tuple(each) for each in colours.tolist()}) > COLOURS * 0.9
    assert (np.abs(np.diff(colours, axis=0)).sum(1) > 60).all()


@pytest.mark.parametrize(
    ("value", "shapes"),
    [
        (np.zeros((4, 6), np.uint8), [(4, 6, 1)]),
        (np.zeros((2, 4, 6, 3), np.uint8), [(4, 6, 3)] * 2),
        (np.zeros((4, 6, 2), np.float32), [(4, 6, 3)]),
        (np.zeros((1, 4, 6, 21), np.float32), [(4, 6, 3)]),
        (np.zeros((1, 4, 6), np.int64), [(4, 6, 3)]),
        (np.zeros((1, 4, 6), np.float32), [(4, 6, 1)]),
        (np.zeros((4, 6), bool), [(4, 6, 1)]),
        (np.zeros(5, np.float32), []),
        (np.array([b"a"], object), []),
        (None, []),
    ],
)
def test_which_values_are_pictures(value: Any, shapes: list[tuple[int, ...]]) -> None:
    assert [each.shape for each in pictures_of(value)][: len(shapes)] == shapes
    assert bool(shapes) == bool(pictures_of(value))


@given(
    hnp.arrays(
        st.sampled_from([np.uint8, np.uint16]),
        st.tuples(*[st.integers(1, 5)] * 2, st.sampled_from([1, 3, 4])),
    )
)
def test_bytes_of_an_image_are_kept(image: Any) -> None:
    (found,) = pictures_of(image)
    assert found.dtype == image.dtype
    assert np.array_equal(found, image)


@given(hnp.arrays(np.float32, (3, 4, 3), elements=st.floats(0, 1, width=32)))
def test_floats_become_the_bytes_that_tensorflow_makes(image: Any) -> None:
    (found,) = pictures_of(image)
    assert np.array_equal(found, np.floor(image.astype(np.float64) * 255.5).astype(np.uint8))


def test_pictures_are_kept_as_png_in_a_file_or_a_folder(save: Save, tmp_path: Path, capsys: Output) -> None:
    graph = fe.Graph()
    image = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3) * 10
    graph.constant(image, "uint8", name="image")
    graph.constant(np.stack([image[0]] * 2), "uint8", name="net/batch")
    graph.constant([[0, 1], [1, 300]], "int32", name="classes")
    graph.constant([[-1.0, 0.5]], "float32", name="wide")
    graph.constant([1.0], "float32", name="flat")
    path, target = save(graph), tmp_path / "out.png"
    assert main(["run", path, "-y", "image", "-o", str(target)]) == 0
    assert np.array_equal(np.asarray(Image.open(target)), image[0])
    assert main(["run", path, "-y", "image", "-o", str(target)]) == failure.USAGE
    folder = tmp_path / "out"
    assert (
        main(
            [
                "run",
                path,
                *[p for n in ("net/batch", "classes", "flat") for p in ("-y", n)],
                "-o",
                f"{folder}/",
            ]
        )
        == 0
    )
    assert sorted(each.name for each in folder.iterdir()) == [
        "classes.png",
        "net_batch_0.png",
        "net_batch_1.png",
    ]
    pixels = np.asarray(Image.open(folder / "classes.png"))
    assert [tuple(each) for each in pixels.reshape(-1, 3).tolist()] == [
        colour_of(n) for n in (0, 1, 1, 300 % 256)
    ]
    capsys.readouterr()
    assert main(["run", path, "-y", "wide", "-o", str(tmp_path / "wide.png")]) == 0
    assert "values from -1 to 0.5 are clipped" in capsys.readouterr().err
    for line, told in (
        (["-y", "flat", "-o", str(tmp_path / "a.png")], "no value is a picture (flat:0 [1])"),
        (["-y", "net/batch", "-o", str(tmp_path / "a.png")], "holds one picture, not 2: name a folder"),
        (["-y", "flat", "-y", "image", "-o", str(tmp_path / "a.png")], "holds one picture, not 2"),
    ):
        assert main(["run", path, *line]) != 0
        assert told in capsys.readouterr().err
    assert not (tmp_path / "a.png").exists()
