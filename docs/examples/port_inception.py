"""Write a small and a large model, their checkpoints, and three ports with one mistake each."""

import flowengine as fe


def convolution(x: fe.Tensor, size: int, name: str, *, use_bias: bool = True) -> fe.Tensor:
    """Return (N, H, W, 4) channels."""
    return fe.layers.conv2d(x, 4, size, padding="same", activation=fe.nn.relu, use_bias=use_bias, name=name)


def module(x: fe.Tensor, mistake: str) -> fe.Tensor:
    """Return the branches of an Inception module, side by side: (N, H, W, 16)."""
    pool = fe.layers.average_pooling2d if mistake == "pooling" else fe.layers.max_pooling2d
    branches = [
        convolution(x, 1, "one"),
        convolution(convolution(x, 1, "three_in"), 3, "three"),
        convolution(convolution(x, 1, "five_in"), 5, "five", use_bias=mistake != "shapes"),
        convolution(pool(x, 3, 1, padding="same"), 1, "pooled"),
    ]
    return fe.concat(branches, 3)


def model(modules: int, mistake: str = "") -> fe.Graph:
    """Return a graph that learns one number from a picture of 8 x 8."""
    graph = fe.Graph()
    graph.seed = 1
    h = graph.placeholder("float32", [None, 8, 8, 1], name="images")
    targets = graph.placeholder("float32", [None], name="targets")
    for number in range(modules):
        with graph.variable_scope(f"module_{number}"):
            h = module(h, mistake)
    guess = fe.layers.dense(fe.reduce_mean(h, [1, 2]), 1, name="guess")  # (N, 1)
    if mistake != "shapes":
        guess = fe.reshape(guess, [-1])
    loss = fe.reduce_mean(fe.square(fe.subtract(guess, targets, name="gap"), name="square"), name="loss")
    loss_to_learn = loss * 2.0 if mistake == "gradient" else loss
    fe.optimizers.SGD(0.05).minimize(loss_to_learn, name="train")
    return graph


if __name__ == "__main__":
    for name, modules in {"small": 1, "large": 9}.items():
        graph = model(modules)
        graph.save(f"{name}.pb")
        with fe.blocking.Session(graph) as session:
            session.initialize()
            fe.blocking.Saver().save(session, f"{name}.ckpt")
        model(modules).save(f"{name}_port.pb")
    for number, mistake in enumerate(("shapes", "pooling", "gradient"), 1):
        model(1, mistake).save(f"port_{number}.pb")
