//! A kernel whose threads number themselves: the start of many tests.

/// A kernel `k` with a buffer `data`. `body` finds its address in `%rd1` and the number of the thread in the grid in `%r1`; it
/// may use `%rd2`, `%rd3` and `%r2` to `%r4`.
pub(crate) fn kernel_of_threads(body: &str) -> String {
    format!(
        "
        .visible .entry k(.param .u64 data) {{
            .reg .b64 %rd<4>; .reg .b32 %r<5>;
            ld.param.u64 %rd1, [data];
            mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
            mad.lo.u32 %r1, %r1, %r2, %r3;
            {body}
            ret;
        }}"
    )
}
