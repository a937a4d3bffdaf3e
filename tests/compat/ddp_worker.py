"""One of two processes that train a small Deformable-DETR on libmsda, by DistributedDataParallel over gloo on the CPU.

    ddp_worker.py RANK FILE    both ranks are given the same FILE to meet at

Trains twice from the same beginning and prints a digest of every parameter after each run.
"""

import hashlib
import sys

import families
import libmsda.compat
import torch

STEPS = 3
rank, meeting_place = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting_place}", rank=rank, world_size=2)
for _run in range(2):
    torch.manual_seed(7)
    model, inputs = families.FAMILIES["deformable_detr"].tiny()
    parallel = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01, momentum=0.9)
    torch.manual_seed(rank)  # each has images of its own
    with libmsda.compat.transformers() as patch:
        for _step in range(STEPS):
            inputs["pixel_values"].normal_()
            optimizer.zero_grad()
            output = parallel(**inputs)
            (output.logits.square().mean() + output.pred_boxes.square().mean()).backward()
            optimizer.step()
    report = patch.report()
    assert (report.calls, report.fallbacks) == (4 * STEPS, {}), report
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    print("digest", digest.hexdigest())
torch.distributed.destroy_process_group()
