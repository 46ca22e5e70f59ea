//! Instructions that the simulator supports, as reported by its own front end.

use crate::error::Unsupported;
use crate::lower::MNEMONICS;
use crate::module::Module;

/// Forms that are refused: one of each kind, as written in a kernel.
const REFUSED: &[&str] = &[
    ".blocksareclusters",
    "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3, %r4}], [%r5], {%h1, %h2};",
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r1], 16, %h1;",
    "multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%rd1];",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r5];",
    "tex.2dms.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2, %r3, %r4}];",
    "tex.2d.v2.f16x2.f32 {%r1, %r2}, [%rd1, {%f5, %f6}];",
    "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}], {%r1, %r2};",
    "txq.channel_order.b32 %r1, [%rd1];",
    "sust.p.2d.b32.zero [%rd1, {%r2, %r3}], {%r4};",
    "shfl.down.b32 %r1, %r2, 1, 31;",
    "vote.ballot.b32 %r1, %p1;",
    "tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r1, %r2}, %r3, [%r4];",
    "tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd2, [%r2], %r3, %p1;",
    "tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, %p1;",
    "tcgen05.mma.cta_group::1.kind::f16.ashift [%r1], [%r2], %rd2, %r3, %p1;",
];

/// The mnemonics that run, in at least one form, by name.
#[must_use]
pub fn supported_mnemonics() -> Vec<&'static str> {
    let mut mnemonics = MNEMONICS.to_vec();
    mnemonics.sort_unstable();
    mnemonics
}

/// Forms of PTX that are refused, with the reason that a kernel would get.
#[must_use]
pub fn refused_forms() -> Vec<Unsupported> {
    REFUSED.iter().filter_map(|form| refusal(form)).collect()
}

/// Reason why a kernel with that instruction or directive is refused; `None` if it is not.
fn refusal(form: &str) -> Option<Unsupported> {
    let (directive, instruction) = if form.starts_with('.') { (form, "") } else { ("", form) };
    let registers = ".reg .pred %p<3>; .reg .b16 %h<3>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<5>;";
    let target = if instruction.starts_with("tcgen05") { "sm_100a" } else { "sm_90a" };
    let source = format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {directive}\n{{ {registers}\n{instruction}\nret; }}"
    );
    let module = Module::from_ptx(&source, "support.ptx").ok()?;
    module.kernels().next()?.unsupported.first().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_in_the_list_is_refused() {
        for form in REFUSED {
            assert!(refusal(form).is_some(), "{form} runs, or is no PTX");
        }
        assert_eq!(refusal("add.u32 %r1, %r2, %r3;"), None);
    }
}
