"""Runs PyTorch for comparison with the course's kernels: reads requests from stdin, a line of JSON each, writes times as such lines to stdout.

Request:  {"device": 0, or null for none, "threads": 16, "queue": "empty" | "warm" | "cold", "warm_up": 3, "repeats": 20, "limit_s": 10.0,
           "work": [{"op": "gemm",        "shape": [M, N, K], "transposed": true | false},
                    {"op": "scaled_gemm", "shape": [M, N, K], multiples of 128},
                    {"op": "linear_relu", "shape": [batch, in, out], "backward": true | false},
                    {"op": "conv2d",      "shape": [N, C, H, W], "weight": [K, C / groups, R, S],
                                          "stride": [y, x], "padding": [y, x], "dilation": [y, x], "groups": g},
                    {"op": "half_conv2d", "shape": [N, C, H, W], "weight": [K, C, R, S], "stride": [y, x], "padding": [y, x],
                                          "silu": true | false},
                    {"op": "batch_norm",  "shape": [N, C, H, W]},
                    {"op": "relu",        "shape": [...]},
                    {"op": "statistics",  "shape": [N, C, H, W]},
                    {"op": "resnet18",    "batch": 32},
                    {"op": "autoencoder", "shape": [n_mels, frames, latent, slice_latent], "batch": 32},
                    {"op": "attention",   "shape": [batch, heads, tokens, d]},
                    {"op": "half_attention", "shape": [batch, heads, queries, d], "keys": tokens, "causal": true | false,
                                          "backend": "FLASH_ATTENTION" | "CUDNN_ATTENTION" | "EFFICIENT_ATTENTION" | "MATH",
                                          "element": "bf16" | "e4m3", if it is not f16; then also "backend": "FLASH_ATTENTION_3"},
                    {"op": "unet",        "channels": 320, "batch": 2}],
           each with "mode": "eager" | "compiled" | "compiled_graph" | "autotuned" | "graph" | "cpu", and "arithmetic": "tf32" if f32 may be
           rounded to it; for models and linear_relu also "f16"; and "channels_last": true, for conv2d and models, where the layout is asked for}
Response: {"version": "2.9.0"}, then, as it happens, for each piece of work, by its index in the request
          {"begun": 0}, {"index": 0, "samples_ms": [...]} or {"index": 0, "absent": "why"};
          or {"absent": "why"} for the whole request; at the end {"done": true}.

A line is written as soon as it is known: who asked may end a piece that takes too long, and keeps what came before it.

Everything but scaled_gemm (8-bit floats to bf16, with scales of 1 × 128 and 128 × 128 values), half_conv2d (f16, channels last), half_attention (f16, bf16 or e4m3), models and linear_relu in f16 is f32, with cuDNN's own tuning. Models in
tf32 and f16 are channels last. "autotuned" is max-autotune without its own graphs, captured by us. Runs are measured as in `bench::timing::Bench`: each run separately, by
events, after a fill of 512 MB and, if warm, an unmeasured run. All are queued before the first ends, so the interpreter's time is
not included; on an idle GPU (`empty`) it is. On the CPU, runs are measured by the host's clock.
"""

import contextlib
import json
import os
import sys
import time

# In the order in which they are measured: the CPU first, because PyTorch's compiler starts a process for each core, which would disturb
# it; then what takes seconds before what takes minutes, which a limit may cut off.
MODES = ["cpu", "eager", "graph", "compiled", "compiled_graph", "autotuned"]


def main():
    # Output of libraries must not end up in the response.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # Loading it takes seconds, in which the first request is prepared; without it, the response says so.
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401
    for request in sys.stdin:
        for line in respond(json.loads(request)):
            print(json.dumps(line), file=out, flush=True)
        print(json.dumps({"done": True}), file=out, flush=True)


def respond(request):
    """The lines of the response."""
    # What max-autotune tries is timed by Triton's way, which refills 256 MB before each run. The default one refills the L2 cache
    # alone, in less time than a slow host needs for a launch: candidates then take 23 µs alike, and the choice is left to chance.
    os.environ.setdefault("TORCHINDUCTOR_USE_EXPERIMENTAL_BENCHMARKER", "0")
    try:
        import torch
    except ImportError as error:
        yield {"absent": f"Python has no PyTorch: {error}"}
        return
    gpu = request["device"]
    if gpu is not None:
        if not torch.cuda.is_available():
            yield {"absent": f"PyTorch {torch.__version__} sees no GPU"}
            return
        torch.cuda.set_device(gpu)
    torch.set_num_threads(request["threads"])
    torch.backends.cudnn.benchmark = True
    yield {"version": torch.__version__}
    for i, work in sorted(enumerate(request["work"]), key=lambda entry: MODES.index(entry[1]["mode"])):
        yield {"begun": i}
        cpu = work["mode"] == "cpu"
        if gpu is None and not cpu:
            yield {"index": i, "absent": "PyTorch is measured on GPUs only"}
            continue
        tf32 = work.get("arithmetic") == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
        if hasattr(torch.backends.cudnn, "fp32_precision"):
            # The compiler's own convolutions look at this alone.
            torch.backends.cudnn.fp32_precision = "tf32" if tf32 else "ieee"
        run = None
        try:
            run = prepare(torch, work)
            result = {"samples_ms": measure_cpu(request, run) if cpu else measure(torch, request, run)}
        except Exception as error:  # One failure must not take the others with it.
            result = {"absent": f"PyTorch: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        yield {"index": i, **result}
        if gpu is not None:
            run = None  # With its graph, whose memory would stay.
            torch.cuda.empty_cache()


def prepare(torch, work):
    """A function without arguments that queues the work."""
    run = operation(torch, work)
    mode = work["mode"]
    if mode in ("eager", "cpu"):
        return run
    if mode in ("compiled", "compiled_graph", "autotuned"):
        torch._dynamo.reset()
        # Captured by us: PyTorch's own replay takes longer on the host than a small kernel on the device.
        run = torch.compile(run, mode="max-autotune-no-cudagraphs" if mode == "autotuned" else "default")
    if mode == "compiled":
        return run
    if mode in ("compiled_graph", "autotuned", "graph"):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay
    raise ValueError(f"no such mode: {mode}")


def operation(torch, work):
    functional = torch.nn.functional

    device = "cpu" if work["mode"] == "cpu" else "cuda"

    def random(*shape):
        return torch.rand(*shape, device=device, dtype=torch.float32) * 2 - 1

    def model(make, *inputs):
        """Untrained weights: run time does not depend on their values."""
        with torch.device(device):
            network = make().eval().requires_grad_(False)
        for parameter in network.parameters():
            if parameter.dim() > 1:
                torch.nn.init.kaiming_uniform_(parameter)
        arithmetic = work.get("arithmetic")
        if arithmetic == "f16":
            network, inputs = network.half(), [x.half() if x.is_floating_point() else x for x in inputs]
        if arithmetic is not None or work.get("channels_last"):
            network = network.to(memory_format=torch.channels_last)
            inputs = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]
        return inference(torch, lambda: network(*inputs))

    op, shape = work["op"], work.get("shape")
    if op == "gemm":
        m, n, k = shape
        a = random(m, k)
        b = random(n, k).t() if work["transposed"] else random(k, n)
        c = torch.empty(m, n, device="cuda")
        return inference(torch, lambda: torch.mm(a, b, out=c))
    if op == "scaled_gemm":
        m, n, k = shape

        def in_blocks(matrix, high):
            rows, columns = matrix.shape
            blocks = matrix.view(rows // high, high, columns // 128, 128)
            scales = blocks.abs().amax(dim=(1, 3)) / 448
            values = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn)
            return values.view(rows, columns), scales

        (a, of_a), (b, of_b) = in_blocks(random(m, k), 1), in_blocks(random(n, k), 128)
        of_a = of_a.t().contiguous().t()  # the scales of a column of blocks next to each other
        return inference(torch, lambda: torch._scaled_mm(a, b.t(), of_a, of_b.t(), out_dtype=torch.bfloat16))
    if op == "linear_relu":
        batch, inputs, outputs = shape
        of_type = torch.float16 if work.get("arithmetic") == "f16" else torch.float32
        x, w, b = (values.to(of_type) for values in (random(batch, inputs), random(outputs, inputs), random(outputs)))
        if not work["backward"]:
            return inference(torch, lambda: functional.relu(functional.linear(x, w, b)))
        for tensor in (x, w, b):
            tensor.requires_grad_()
        y, dy = functional.relu(functional.linear(x, w, b)), random(batch, outputs)
        return lambda: torch.autograd.grad(y, (x, w, b), dy, retain_graph=True)
    if op == "conv2d":
        x, w = random(*shape), random(*work["weight"])
        if work.get("channels_last"):
            x, w = (tensor.to(memory_format=torch.channels_last) for tensor in (x, w))
        geometry = {name: work[name] for name in ("stride", "padding", "dilation", "groups")}
        return inference(torch, lambda: functional.conv2d(x, w, None, **geometry))
    if op == "half_conv2d":
        last = dict(dtype=torch.float16, memory_format=torch.channels_last)
        x, w = random(*shape).to(**last), random(*work["weight"]).to(**last)
        geometry = {name: work[name] for name in ("stride", "padding")}
        if not work["silu"]:
            return inference(torch, lambda: functional.conv2d(x, w, None, **geometry))
        weight, bias, mean, variance = (random(work["weight"][0]) for _ in range(4))
        variance = variance.abs() + 0.5

        def conv_norm_silu():
            y = functional.conv2d(x, w, None, **geometry)
            return functional.silu(functional.batch_norm(y, mean, variance, weight, bias, False, 0.0, 1e-5))

        return inference(torch, conv_norm_silu)
    if op == "batch_norm":
        x = random(*shape)
        weight, bias, mean, variance = (random(shape[1]) for _ in range(4))
        variance = variance.abs() + 0.5
        return inference(torch, lambda: functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, 1e-5))
    if op == "relu":
        x = random(*shape)
        return inference(torch, lambda: functional.relu_(x))
    if op == "statistics":
        x = random(*shape)
        return inference(torch, lambda: torch.var_mean(x, dim=(0, 2, 3), correction=0))
    if op == "resnet18":
        import models

        return model(models.ResNet, random(work["batch"], 3, 224, 224))
    if op == "autoencoder":
        import models

        mels, frames, _, _ = shape
        return model(lambda: models.Autoencoder(*shape), random(work["batch"], frames * mels))
    if op == "unet":
        import models

        steps = torch.full((work["batch"],), 500, device=device)
        network = lambda: models.UNet(work["channels"], sdpa=True)  # noqa: E731
        return model(network, random(work["batch"], 8, 64, 64), steps)
    if op == "attention":
        q, k, v = random(*shape), random(*shape), random(*shape)
        return inference(torch, lambda: functional.scaled_dot_product_attention(q, k, v))
    if op == "half_attention":
        from torch.nn.attention import SDPBackend, sdpa_kernel

        batch, heads, queries, d = shape
        of_type = {"f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}[work.get("element", "f16")]
        q, k, v = (random(batch, heads, tokens, d).to(of_type) for tokens in (queries, work["keys"], work["keys"]))
        causal = work["causal"]
        if work["backend"] == "FLASH_ATTENTION_3":
            from fa3_fwd_interface import flash_attn_func

            # Its tensors are [batch, tokens, heads, d].
            q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in (q, k, v))
            options = {"causal": causal}
            if of_type == torch.float8_e4m3fn:
                factor = torch.ones(batch, heads, device=device)
                options.update(q_descale=factor, k_descale=factor, v_descale=factor)
            return inference(torch, lambda: flash_attn_func(q, k, v, **options))
        backend = SDPBackend.__members__[work["backend"]]

        def attend():
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return inference(torch, attend)
    raise ValueError(f"no such operation: {op}")


def inference(torch, run):
    def without_gradients():
        with torch.no_grad():
            return run()

    return without_gradients


def measure(torch, request, run):
    for _ in range(max(request["warm_up"], 1)):
        run()
    queue = request["queue"]
    filler = None if queue == "empty" else torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    samples, begin = [], time.monotonic()
    while len(samples) < request["repeats"] and (not samples or time.monotonic() - begin < request["limit_s"]):
        if filler is not None:
            filler.fill_(255)
        if queue == "warm":
            run()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end))
    return samples


def measure_cpu(request, run):
    for _ in range(request["warm_up"]):
        run()
    samples, begin = [], time.monotonic()
    while len(samples) < request["repeats"] and (not samples or time.monotonic() - begin < request["limit_s"]):
        start = time.perf_counter()
        run()
        samples.append((time.perf_counter() - start) * 1e3)
    return samples


main()
