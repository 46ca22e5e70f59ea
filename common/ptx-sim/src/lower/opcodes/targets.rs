//! The `.target` that an instruction needs (PTX ISA, "Target ISA Notes" of each; as ptxas 13.0 has it).

use std::collections::HashMap;
use std::sync::LazyLock;

use super::modifiers::Modifiers;
use crate::ast::Target;
use crate::lower::symbols::{Lower, invalid};

/// Instructions by the first compute capability that has them, from a mnemonic on with modifiers that they all have, in any
/// order; `*`: any mnemonic.
const FIRST: &[(u32, &str)] = &[
    (32, "shf"),
    (70, "match nanosleep"),
    (75, "cvt.pack ex2.f16 ex2.f16x2 ldmatrix movmatrix tanh"),
    (
        80,
        "abs.bf16 abs.bf16x2 applypriority cp.async createpolicy cvt.bf16 cvt.bf16x2 cvt.relu cvt.tf32 discard \
         fma.bf16 fma.bf16x2 fma.relu max.NaN max.bf16 max.bf16x2 max.f16 max.f16x2 mbarrier min.NaN min.bf16 \
         min.bf16x2 min.f16 min.f16x2 mma.bf16 mma.f64 mma.m16n8k16 mma.sp mma.tf32 neg.bf16 neg.bf16x2 redux \
         wmma.bf16 wmma.f64 wmma.tf32",
    ),
    (86, "max.xorsign min.xorsign"),
    (89, "cvt.e4m3x2 cvt.e5m2x2 mma.e4m3 mma.e5m2"),
    (
        90,
        "*.shared::cluster add.bf16 add.bf16x2 add.s16x2 add.u16x2 atom.b128 atom.bf16 atom.bf16x2 atom.v2 \
         atom.v4 atom.v8 barrier.cluster cp.async.bulk cvt.tf32.rn elect ex2.bf16 ex2.bf16x2 fence.async \
         fence.cluster fence.mbarrier_init fence.tensormap fma.oob getctarank griddepcontrol mapa max.relu.s32 \
         max.s16x2 max.u16x2 mbarrier.complete_tx mbarrier.expect_tx mbarrier.try_wait min.relu.s32 min.s16x2 \
         min.u16x2 mul.bf16 mul.bf16x2 multimem red.async red.bf16 red.bf16x2 red.v2 red.v4 red.v8 set.bf16 \
         set.bf16x2 setp.bf16 setp.bf16x2 st.async stmatrix sub.bf16 sub.bf16x2 tanh.bf16 tanh.bf16x2",
    ),
    (100, "add.f32.bf16 add.f32.f16 clusterlaunchcontrol fma.f32.bf16 fma.f32.f16 sub.f32.bf16 sub.f32.f16"),
];

/// A form of an instruction: the first capability that has it, its text, and the modifiers in that.
type Form = (u32, &'static str, Vec<&'static str>);

/// [`FIRST`] by mnemonic.
static BY_MNEMONIC: LazyLock<HashMap<&str, Vec<Form>>> = LazyLock::new(|| {
    let mut forms: HashMap<&str, Vec<_>> = HashMap::new();
    for (first, form) in FIRST.iter().flat_map(|(first, forms)| forms.split(' ').map(move |form| (*first, form))) {
        let mut words = form.split('.');
        let mnemonic = words.next().unwrap_or_default();
        forms.entry(mnemonic).or_default().push((first, form, words.collect()));
    }
    forms
});

/// Instructions of an architecture's own target: the first that has them, such as `sm_90a`, and the last.
const SPECIFIC: &[(&str, u32, u32)] =
    &[("setmaxnreg", 90, u32::MAX), ("tcgen05", 100, 119), ("tensormap.replace", 90, u32::MAX), ("wgmma", 90, 90)];

/// Reports an instruction that the `.target` does not have.
pub(super) fn check(name: &str, m: &Modifiers<'_>, target: Target) -> Lower<()> {
    let has = |word: &str| {
        let is =
            |modifier: &&str| modifier.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        m.0.iter().any(is)
    };
    let forms = ["*", name].into_iter().filter_map(|mnemonic| BY_MNEMONIC.get(mnemonic)).flatten();
    let missing = forms.filter(|(first, _, words)| *first > target.capability && words.iter().all(|word| has(word)));
    if let Some((first, form, _)) = missing.max_by_key(|(first, ..)| *first) {
        let form = form.trim_start_matches("*.");
        return invalid(format!(
            "{form} needs .target sm_{first} or a later one, and the file has sm_{}",
            target.capability
        ));
    }
    let is_it = |form: &str| {
        let mut words = form.split('.');
        words.next() == Some(name) && words.all(has)
    };
    match SPECIFIC.iter().find(|(form, ..)| is_it(form)) {
        Some((form, first, last)) if !target.specific || !(*first..=*last).contains(&target.capability) => {
            let which = match *last {
                last if last == *first => "and no other one",
                u32::MAX => "or a later one that ends in a",
                _ => "or another of its family",
            };
            invalid(format!("{form} needs .target sm_{first}a, {which}"))
        }
        _ => Ok(()),
    }
}
