#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["matplotlib==3.11.2"]
# ///
"""Models what a token costs on several machines: a table of 1 to 16 machines and three links, for five shapes.

    tools/machines_cost.py [--read GB/s] [-o OUT.svg]

    time = bytes of weights / read / machines + exchanges * (latency + own cost) + bytes received / rate

An exchange's own cost is fitted, by least squares, to measurements with two machines of one thread and a
1.1 B q4 model; src/model/MACHINES.md says how they were made. --read is the memory bandwidth of a machine;
the default is what a desktop with two channels of DDR4 reads. -o draws the curves (matplotlib).

Example: tools/machines_cost.py --read 60 -o machines.svg
"""

import argparse
from dataclasses import dataclass

from tern import script

if __name__ == "__main__":
    script.begin()

from tern import plot

LINKS = {"1 GbE, 200 us": (200e-6, 125e6), "2.5 GbE, 60 us": (60e-6, 312.5e6), "10 GbE, 20 us": (20e-6, 1250e6)}
MACHINES = (1, 2, 4, 8, 16)
Q4 = 4.5 / 8  # bytes of a weight

# Measured, in seconds a token: one machine; two, by link (medians of MACHINES.md)
ALONE = 58.4e-3
TWO = {"1 GbE, 200 us": 53.3e-3, "2.5 GbE, 60 us": 37.3e-3, "10 GbE, 20 us": 31.7e-3}


@dataclass(frozen=True)
class Shape:
    name: str
    weights: float  # that a token reads
    layers: int
    dim: int
    heads: int  # columns that o reads
    hidden: int  # columns that down reads: of all experts in use
    vocab: int

    def exchanges(self) -> int:
        return 4 * self.layers + 3  # and an order, the logits, what all agree on

    def received(self, machines: int) -> float:
        """Bytes that rank 0 gets a token: two rounded gathers, 40 bytes for 32 columns; two of the stream, f32; logits."""
        layer = (self.heads + self.hidden) * 40 / 32 + 2 * self.dim * 4
        return (self.layers * layer + 4 * self.vocab) * (machines - 1) / machines


SHAPES = (
    Shape("1.1 B", 1.034e9, 22, 2048, 2048, 5632, 32000),
    Shape("8 B", 7.50e9, 32, 4096, 4096, 14336, 128256),
    Shape("32 B", 32.0e9, 64, 5120, 8192, 25600, 151936),
    Shape("70 B", 69.5e9, 80, 8192, 8192, 28672, 128256),
    Shape("30B-A3B", 3.03e9, 48, 2048, 4096, 8 * 768, 151936),
)


def network(shape: Shape, machines: int, link: str, own: float) -> float:
    latency, rate = LINKS[link]
    return shape.exchanges() * (latency + own) + shape.received(machines) / rate if machines > 1 else 0


def fit() -> float:
    """An exchange's own cost: the mean of what is left, for all links have the same number of exchanges."""
    small = SHAPES[0]
    left = [seconds - ALONE / 2 - network(small, 2, link, 0) for link, seconds in TWO.items()]
    return sum(left) / len(left) / small.exchanges()


def token(shape: Shape, machines: int, link: str, own: float, read: float) -> float:
    return shape.weights * Q4 / read / machines + network(shape, machines, link, own)


def pays_below(shape: Shape, link: str, own: float) -> float:
    """The bandwidth of a machine up to which a second one pays: half of the reading takes as long as the network."""
    return shape.weights * Q4 / 2 / network(shape, 2, link, own)


def run(options: argparse.Namespace) -> None:
    if options.output:
        plot.check_form(options.output)
    own, read = fit(), options.read * 1e9
    print(f"an exchange's own cost: {own * 1e6:.0f} us; modelled and measured with 2 machines, 1.1 B:")
    for link, seconds in TWO.items():
        modelled = ALONE / 2 + network(SHAPES[0], 2, link, own)
        print(f"  {link}: {modelled * 1e3:.1f} ms, {seconds * 1e3:.1f} ms ({100 * modelled / seconds - 100:+.0f} %)")
    print(f"\nms a token, modelled, q4, machines that read {options.read:g} GB/s\n")
    print("| shape | link | " + " | ".join(map(str, MACHINES)) + " | fastest with | a second one pays below |")
    print("|---|---|" + "---|" * (len(MACHINES) + 2))
    for shape in SHAPES:
        for link in LINKS:
            times = {n: token(shape, n, link, own, read) for n in range(1, 17)}
            cells = " | ".join(f"{times[n] * 1e3:.0f}" for n in MACHINES)
            best = min(times, key=times.get)
            print(f"| {shape.name} | {link} | {cells} | {best} | {pays_below(shape, link, own) * 1e-9:.0f} GB/s |")
    if options.output:
        draw(options.output, own, read)


def draw(name: str, own: float, read: float) -> None:
    from matplotlib import figure

    fig = figure.Figure(figsize=(3 * len(SHAPES), 3), layout="constrained")
    for axes, shape in zip(fig.subplots(1, len(SHAPES)), SHAPES, strict=True):
        for link in LINKS:
            n = range(1, 17)
            axes.plot(n, [1 / token(shape, m, link, own, read) for m in n], label=link)
        axes.set(title=f"{shape.name} q4, modelled", xlabel="machines", ylabel="tokens a second", ylim=(0, None))
    axes.legend()
    fig.savefig(name)


def main(arguments: list[str] | None = None) -> int:
    parser = script.parser("machines_cost.py", __doc__)
    parser.add_argument("--read", type=script.at_least(0.1, float), default=40, help="GB/s of a machine's memory; default 40")
    parser.add_argument("-o", "--output", metavar="OUT", help=".svg or .png")
    return script.guarded(parser, run, arguments, "requirements-plots.txt")


if __name__ == "__main__":
    script.run(main)
