"""Functions that PyTorch's compiler makes kernels of: what training and inference are made of, and what `max-autotune` picks."""

import torch
import torch._inductor.config as inductor
import torch.nn.functional as F

# So that each kernel is loaded and launched by Triton's own launcher, which is where it is recorded.
inductor.use_static_cuda_launcher = False
inductor.max_autotune_gemm_backends = "TRITON"
inductor.max_autotune_conv_backends = "TRITON"
inductor.autotune_in_subproc = False
inductor.fx_graph_cache = False

WORKLOADS = {}


def randn(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, device="cuda").to(dtype).requires_grad_(grad)


def compiled(name, make, *, mode=None, backward=False, options=None):
    """`make` gives a function and its arguments; kernels are recorded at the second call, when all choices are made."""

    def run(record):
        torch._dynamo.reset()
        with inductor.patch(options or {}):
            function, args = make()
            fast = torch.compile(function, mode=mode, dynamic=False)

            def step():
                result = fast(*args)
                if backward:
                    result.sum().backward()

            step()
            torch.cuda.synchronize()
            with record():
                step()

    WORKLOADS[f"inductor-{name}"] = run


compiled("gelu", lambda: (lambda x, b: F.gelu(x + b), (randn(37, 65), randn(65))))
compiled("swiglu", lambda: (lambda x: F.silu(x[:, :64]) * x[:, 64:], (randn(20, 128, dtype=torch.float16),)))
compiled("mish-bf16", lambda: (lambda x: F.mish(x) + F.softplus(x) * F.hardswish(x), (randn(999, dtype=torch.bfloat16),)))
compiled("softmax", lambda: (lambda x: x.softmax(-1), (randn(12, 333),)))
compiled("log-softmax-long", lambda: (lambda x: x.log_softmax(-1), (randn(3, 5000),)))
compiled("layer-norm", lambda: (lambda x, w, b: F.layer_norm(x, (300,), w, b), (randn(10, 300), randn(300), randn(300))))
compiled("layer-norm-train", lambda: (lambda x, w, b: F.layer_norm(x, (300,), w, b) * 2, (randn(10, 300, grad=True), randn(300, grad=True), randn(300, grad=True))), backward=True)
compiled("rms-norm", lambda: (lambda x, w: x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * w, (randn(9, 256, dtype=torch.bfloat16), randn(256, dtype=torch.bfloat16))))
compiled("group-norm", lambda: (lambda x, w, b: F.relu(F.group_norm(x, 4, w, b)), (randn(2, 16, 9, 9), randn(16), randn(16))))
compiled("batch-norm-train", lambda: (lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)), (randn(4, 8, 11, 11, grad=True), randn(8, grad=True), randn(8, grad=True))), backward=True)
compiled("sum-all", lambda: (lambda x: x.sum(), (randn(50000),)))
compiled("sum-columns", lambda: (lambda x: x.sum(0), (randn(700, 33),)))
compiled("mean-var", lambda: (lambda x: torch.var_mean(x, (0, 2)), (randn(5, 7, 300),)))
compiled("argmax", lambda: (lambda x: (x.argmax(-1), x.argmin(0)), (randn(40, 200),)))
compiled("min-max-any", lambda: (lambda x: (x.amax(1), x.amin(0), (x > 3).any(), x.prod(1)), (randn(40, 30),)))
compiled("cumsum", lambda: (lambda x: x.cumsum(-1), (randn(6, 500),)))
compiled("cumprod-logcumsumexp", lambda: (lambda x: (x.cumprod(0), x.logcumsumexp(1)), (randn(60, 50),)))
compiled("cummax", lambda: (lambda x: x.cummax(-1), (randn(6, 300),)))
compiled("sort", lambda: (lambda x: x.sort(-1), (randn(4, 100),)))
compiled("sort-stable-int", lambda: (lambda x: x.sort(dim=-1, stable=True, descending=True), (torch.randint(0, 9, (4, 200), device="cuda"),)))
compiled("embedding", lambda: (lambda t, w: F.embedding(t, w) * 0.5, (torch.randint(0, 40, (11, 5), device="cuda"), randn(40, 32))))
compiled("embedding-train", lambda: (lambda t, w: F.embedding(t, w) * 0.5, (torch.randint(0, 40, (11, 5), device="cuda"), randn(40, 32, grad=True))), backward=True)
compiled("cross-entropy-train", lambda: (lambda x, t: F.cross_entropy(x, t), (randn(9, 600, grad=True), torch.randint(0, 600, (9,), device="cuda"))), backward=True)
compiled("losses", lambda: (lambda x, y: F.mse_loss(x, y) + F.smooth_l1_loss(x, y) + F.kl_div(x.log_softmax(-1), y.softmax(-1)), (randn(30, 70), randn(30, 70))))
compiled("index-put", lambda: (lambda x, i, v: x.clone().index_put_((i,), v, accumulate=True), (randn(50), torch.randint(0, 50, (300,), device="cuda"), randn(300))))
compiled("scatter-gather", lambda: (lambda x, i, s: x.scatter_add(1, i, s).gather(1, i), (randn(6, 40), torch.randint(0, 40, (6, 90), device="cuda"), randn(6, 90))))
compiled("where-roll-flip", lambda: (lambda x: torch.where(x > 0, x.roll(3, 0), x.flip(1)).T.contiguous(), (randn(45, 38),)))
compiled("cat-pad", lambda: (lambda x, y: F.pad(torch.cat([x, y * 2], 1), (1, 2, 3, 0)), (randn(20, 11), randn(20, 14))))
compiled("max-pool", lambda: (lambda x: F.max_pool2d(F.relu(x), 3, 2, 1), (randn(2, 5, 17, 17),)))
compiled("average-pool-upsample", lambda: (lambda x: F.interpolate(F.avg_pool2d(x, 2), scale_factor=3, mode="bilinear"), (randn(1, 3, 12, 14),)))
compiled("upsample-bicubic", lambda: (lambda x: F.interpolate(x, size=(19, 23), mode="bicubic"), (randn(1, 2, 9, 11),)))
compiled("grid-sample", lambda: (lambda x, g: F.grid_sample(x, g, align_corners=False), (randn(1, 3, 10, 10), torch.rand(1, 7, 7, 2, device="cuda") * 2 - 1)))
compiled("dropout", lambda: (lambda x: F.dropout(x, 0.25), (randn(40, 50),)), options={"fallback_random": False})
compiled("random", lambda: (lambda x: x + torch.rand_like(x) + torch.randn_like(x) + torch.randint_like(x, 10), (randn(40, 50),)))
compiled("rotary", lambda: (lambda x, c, s: x * c + torch.cat([-x[..., 16:], x[..., :16]], -1) * s, (randn(2, 3, 15, 32, dtype=torch.float16), randn(15, 32, dtype=torch.float16), randn(15, 32, dtype=torch.float16))))
compiled("special", lambda: (lambda x: torch.special.i0(x) + torch.lgamma(x.abs() + 1) + torch.erfinv(x.tanh() * 0.9) + torch.special.bessel_j0(x), (randn(300),)))
compiled("trigonometry-f64", lambda: (lambda x: x.sin() * x.cos() + x.atan() + x.sinh() * x.exp().log1p(), (randn(300, dtype=torch.float64),)))
compiled("integers", lambda: (lambda x, y: (x // y + x % y) ^ (x << 2) & (y >> 1) | torch.bitwise_not(x), (torch.randint(-999, 999, (400,), device="cuda"), torch.randint(1, 9, (400,), device="cuda"))))
compiled("uint8-image", lambda: (lambda x: ((x.float() / 255 - 0.45) / 0.225).permute(0, 3, 1, 2).contiguous().half(), (torch.randint(0, 256, (2, 15, 17, 3), device="cuda", dtype=torch.uint8),)))
compiled("quantise", lambda: (lambda x: (x / (x.abs().amax(-1, keepdim=True) / 448)).to(torch.float8_e4m3fn), (randn(12, 128, dtype=torch.bfloat16),)))
compiled("quantise-int8", lambda: (lambda x: (torch.clamp(torch.round(x / x.abs().amax(-1, keepdim=True) * 127), -128, 127)).to(torch.int8), (randn(12, 128),)))
compiled("nan-to-num", lambda: (lambda x: torch.nan_to_num((x - x) / (x * 0)) + torch.isnan(x) + torch.sign(x) + torch.copysign(x, -x) + torch.nextafter(x, x + 1), (randn(200),)))
compiled("bucketize", lambda: (lambda x, b: torch.bucketize(x, b), (randn(300), torch.linspace(-2, 2, 33, device="cuda"))))
compiled("median-topk", lambda: (lambda x: x.sort(-1).values[:, 10] + x.softmax(-1).amax(-1), (randn(8, 64),)))
compiled("cooperative-reduction", lambda: (lambda x: (x * 2).sum(-1), (randn(2, 40000),)), options={"triton.cooperative_reductions": True, "triton.force_cooperative_reductions": True})
compiled("combo-kernels", lambda: (lambda x, y, z: (x.relu(), y.sum(-1), z.sigmoid() * 2), (randn(100), randn(30, 60), randn(77, 3))), options={"combo_kernels": True})
compiled("persistent-off", lambda: (lambda x: x.softmax(-1) * x.var(-1, keepdim=True), (randn(7, 700),)), options={"triton.persistent_reductions": False})
compiled("multi-kernel", lambda: (lambda x: x.softmax(-1).sum(0), (randn(30, 1000),)), options={"triton.multi_kernel": 1})
compiled("block-pointers", lambda: (lambda x, y: (x + y.T).tanh(), (randn(65, 44), randn(44, 65))), options={"triton.use_block_ptr": True})


def optimiser(name, make):
    def run(record):
        torch._dynamo.reset()
        parameters = [randn(*shape, grad=True) for shape in ((30, 20), (100,), (7, 5, 3))]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        chosen = make(parameters)
        step = torch.compile(lambda: chosen.step())
        step()
        step()
        torch.cuda.synchronize()
        with record():
            step()

    WORKLOADS[f"inductor-{name}"] = run


optimiser("adamw", lambda p: torch.optim.AdamW(p, lr=torch.tensor(1e-3, device="cuda"), capturable=True))
optimiser("sgd-momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True))
optimiser("rmsprop", lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5))
optimiser("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.01))

TUNED = "max-autotune-no-cudagraphs"
for dtype, word in ((torch.float16, "f16"), (torch.bfloat16, "bf16"), (torch.float32, "f32")):
    compiled(f"mm-{word}", lambda dtype=dtype: (lambda a, b: a @ b, (randn(72, 96, dtype=dtype), randn(96, 104, dtype=dtype))), mode=TUNED)
    compiled(f"linear-relu-{word}", lambda dtype=dtype: (lambda a, w, b: F.relu(F.linear(a, w, b)), (randn(40, 64, dtype=dtype), randn(72, 64, dtype=dtype), randn(72, dtype=dtype))), mode=TUNED)
    compiled(f"bmm-{word}", lambda dtype=dtype: (torch.bmm, (randn(3, 40, 48, dtype=dtype), randn(3, 48, 56, dtype=dtype))), mode=TUNED)
    compiled(f"gemv-{word}", lambda dtype=dtype: (lambda a, b: a @ b, (randn(1, 96, dtype=dtype), randn(96, 200, dtype=dtype))), mode=TUNED)
    compiled(f"conv-{word}", lambda dtype=dtype: (lambda x, w: F.relu(F.conv2d(x, w, padding=1)), (randn(2, 16, 12, 12, dtype=dtype), randn(24, 16, 3, 3, dtype=dtype))), mode=TUNED)
    compiled(f"conv-1x1-{word}", lambda dtype=dtype: (lambda x, w: F.conv2d(x, w, stride=2), (randn(2, 16, 12, 12, dtype=dtype).to(memory_format=torch.channels_last), randn(32, 16, 1, 1, dtype=dtype))), mode=TUNED)
compiled("mm-f32-tf32", lambda: (lambda a, b: a @ b, (randn(72, 96), randn(96, 104))), mode=TUNED, options={"triton.cudagraphs": False})
compiled("int-mm", lambda: (torch._int_mm, (torch.randint(-9, 9, (64, 64), device="cuda", dtype=torch.int8), torch.randint(-9, 9, (64, 64), device="cuda", dtype=torch.int8))), mode=TUNED)
compiled("scaled-mm", lambda: (lambda a, b, s: torch._scaled_mm(a, b, s, s, out_dtype=torch.bfloat16), (randn(64, 64).to(torch.float8_e4m3fn), randn(64, 64).to(torch.float8_e4m3fn).T, torch.tensor(0.5, device="cuda"))), mode=TUNED)
compiled("mlp-train", lambda: (lambda x, a, b: F.gelu(x @ a) @ b, (randn(48, 64, dtype=torch.bfloat16, grad=True), randn(64, 80, dtype=torch.bfloat16, grad=True), randn(80, 32, dtype=torch.bfloat16, grad=True))), mode=TUNED, backward=True)
compiled("mixed-mm", lambda: (lambda a, b: a @ b.to(a.dtype), (randn(32, 64, dtype=torch.float16), torch.randint(-9, 9, (64, 48), device="cuda", dtype=torch.int8))), mode=TUNED)


def flex(name, *, score=None, mask=None, dtype=torch.float16, head=64, backward=False):
    def make():
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        q, k, v = (randn(1, 2, 128, head, dtype=dtype, grad=backward) for _ in range(3))
        blocks = create_block_mask(mask, 1, 1, 128, 128) if mask else None
        return lambda q, k, v: flex_attention(q, k, v, score_mod=score, block_mask=blocks), (q, k, v)

    compiled(f"flex-attention-{name}", make, backward=backward)


flex("plain")
flex("causal", mask=lambda b, h, q, k: q >= k)
flex("window-bf16", mask=lambda b, h, q, k: (q >= k) & (q - k < 40), dtype=torch.bfloat16)
flex("bias-f32", score=lambda s, b, h, q, k: s + (k - q) * 0.1, dtype=torch.float32, head=32)
flex("softcap-train", score=lambda s, b, h, q, k: torch.tanh(s / 10) * 10, backward=True)
