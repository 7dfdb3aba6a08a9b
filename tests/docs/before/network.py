# SPDX-License-Identifier: Apache-2.0
"""A network with a last layer `fc`, trained on public pictures of digits, and pictures of other people."""

import torch
from sklearn.datasets import load_digits

torch.manual_seed(0)
torch.set_num_threads(1)
weight_decay = 1e-2
_images, _digits = load_digits(n_class=3, return_X_y=True)
images, digits = torch.from_numpy(_images / 16).float(), torch.from_numpy(_digits)
public_images, images, test_images = images.split([150, 250, len(images) - 400])
public_digits, digits, test_digits = digits.split([150, 250, len(digits) - 400])


class _Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.Tanh())
        self.fc = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.body(x))


network = _Network()
_optimiser = torch.optim.SGD(network.parameters(), lr=0.5, weight_decay=weight_decay)
for _ in range(60):
    _optimiser.zero_grad()
    torch.nn.functional.cross_entropy(network(public_images), public_digits).backward()
    _optimiser.step()
