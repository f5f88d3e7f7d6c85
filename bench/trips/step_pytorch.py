# SPDX-License-Identifier: Apache-2.0
"""Training steps of a small network on batches from pageable memory, and the loss of each."""

import sys

import torch

torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to("cuda")
optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
batch, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))
for _ in range(int(sys.argv[1])):
    optimiser.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(batch.to("cuda")), labels.to("cuda"))
    loss.backward()
    optimiser.step()
    loss.item()
