"""Write the small models, pictures and sounds of the page about the shell: python shell_models.py."""

import wave

import numpy as np
from PIL import Image

import flowengine as fe

COLOURS = {"red": (200, 30, 30), "blue": (30, 60, 200)}
RATE = 8000


def coloured(graph: fe.Graph, image: fe.Tensor, colour: tuple[int, int, int]) -> fe.Tensor:
    """Return for each pixel of (1, H, W, 3) whether it has about this colour."""
    distance = graph.ops.Abs(graph.ops.Cast(image, DstT="int32") - graph.constant(colour))
    return graph.ops.Less(graph.ops.Max(distance, [3])[0], 60)


def detector() -> fe.Graph:
    """Find the red and the blue thing in a picture, in the form of TensorFlow's detectors."""
    graph = fe.Graph()
    ops = graph.ops
    image = graph.placeholder("uint8", [1, None, None, 3], name="image")
    size = ops.Cast(ops.Shape(image)[1:3], DstT="float32")
    boxes: list[fe.Tensor] = []
    scores: list[fe.Tensor] = []
    for colour in COLOURS.values():
        mask = coloured(graph, image, colour)
        pixels = ops.Cast(ops.Where(mask), DstT="float32")
        first, last = ops.Min(pixels, [0]), ops.Max(pixels, [0]) + 1.0
        filled = ops.Sum(ops.Cast(mask, DstT="float32"), [0, 1])
        boxes.append(ops.ConcatV2([first / size, last / size], 0))
        scores.append(ops.Minimum(filled / ops.Prod(last - first, [0]), 1.0))
    best = ops.TopKV2(ops.Pack(scores), len(COLOURS))
    ops.ExpandDims(ops.GatherV2(ops.Pack(boxes), best.indices, 0), 0, name="detection_boxes")
    ops.ExpandDims(best.values, 0, name="detection_scores")
    ops.ExpandDims(ops.Cast(best.indices + 1, DstT="float32"), 0, name="detection_classes")
    return graph


def segmenter() -> fe.Graph:
    """Give each pixel of a picture a class: 0 for the background, 1 for red, 2 for blue."""
    graph = fe.Graph()
    image = graph.placeholder("uint8", [1, None, None, 3], name="image")
    masks = [graph.ops.Cast(coloured(graph, image, each), DstT="int32") for each in COLOURS.values()]
    graph.ops.AddN([mask * (number + 1) for number, mask in enumerate(masks)], name="classes")
    return graph


def pitch() -> fe.Graph:
    """Find the strongest frequency of a sound."""
    graph = fe.Graph()
    ops = graph.ops
    audio = graph.placeholder("float32", [None], name="audio")
    strength = ops.ComplexAbs(ops.RFFT(audio, ops.Shape(audio)))
    place = ops.Cast(ops.ArgMax(strength, 0), DstT="float32")
    ops.Mul(place, RATE / ops.Cast(ops.Size(audio), DstT="float32"), name="hertz")
    return graph


def main() -> None:
    for name, graph in (("detector", detector()), ("segmenter", segmenter()), ("pitch", pitch())):
        with open(f"{name}.pb", "wb") as file:
            file.write(graph.to_graph_def().SerializeToString())
    scene = np.full((120, 200, 3), 230, np.uint8)
    scene[20:70, 30:80] = COLOURS["red"]
    rows, columns = np.ogrid[:120, :200]
    scene[(rows - 75) ** 2 + (columns - 140) ** 2 < 35**2] = COLOURS["blue"]
    Image.fromarray(scene).save("scene.png")
    sound = np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
    with wave.open("tone.wav", "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((sound * 20000).astype("<i2").tobytes())
    with open("colours.txt", "w") as file:
        file.write("\n".join(["nothing", *COLOURS, ""]))
    with open("odd.pbtxt", "w") as file:
        file.write('node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }\n')
        file.write('node { name: "y" op: "SomebodysOp" input: "x" }\n')


if __name__ == "__main__":
    main()
