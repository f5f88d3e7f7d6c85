# SPDX-License-Identifier: Apache-2.0
"""PyTorch: a small GPT learns; eagerly, by CUDA graph, and by torch.compile."""

from observe import Skip, main, observe
from torch_setup import CARD, seeded, torch, version

VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 97, 64, 4, 2, 32, 8
functional = torch.nn.functional


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.LayerNorm(WIDTH)
        self.mix = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.second = torch.nn.LayerNorm(WIDTH)
        self.wide = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.mix(self.first(x)).view(batch, length, 3, HEADS, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.places = torch.nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.blocks(self.tokens(tokens) + self.places))


def text():
    host = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1), generator=host).to(CARD)
    return tokens[:, :-1], tokens[:, 1:]


def loss_of(model, before, after):
    return functional.cross_entropy(model(before).flatten(0, 1), after.flatten())


def step(model, optimiser, before, after):
    optimiser.zero_grad(set_to_none=False)
    loss = loss_of(model, before, after)
    loss.backward()
    optimiser.step()
    return loss.detach()


def learner(**options):
    seeded()
    model = Gpt().to(CARD)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3, **options)


@observe
def gradients_of_one_step():
    model, _ = learner()
    loss = loss_of(model, *text())
    loss.backward()
    return [loss, *(part.grad for part in model.parameters())]


@observe
def ten_steps():
    model, optimiser = learner()
    losses = [step(model, optimiser, *text()).clone() for _ in range(10)]
    return [losses[-1] < losses[0], *losses, *model.parameters()]


@observe
def ten_steps_in_bfloat16():
    model, optimiser = learner()
    with torch.autocast("cuda", torch.bfloat16):
        losses = [step(model, optimiser, *text()).clone() for _ in range(10)]
    return [*losses, *model.parameters()]


@observe
def ten_steps_by_graph():
    model, optimiser = learner(capturable=True)
    before, after = text()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(model, optimiser, before, after)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, optimiser, before, after)
    losses = []
    for _ in range(10):
        graph.replay()
        losses.append(loss.clone())
    return [losses[-1] < losses[0], *losses, *model.parameters()]


@observe
def ten_steps_compiled():
    try:
        import triton  # noqa: F401  compiled steps need it
    except ImportError as error:
        raise Skip("Triton is not installed") from error
    model, optimiser = learner()
    fast = torch.compile(model)
    losses = [step(fast, optimiser, *text()).clone() for _ in range(10)]
    return [losses[-1] < losses[0], *losses, *model.parameters()]


@observe
def words_are_generated():
    model, _ = learner()
    tokens = text()[0][:1]
    for _ in range(20):
        following = model(tokens)[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens[:, 1:], following], 1)
    return tokens


main(version())
