//! How true each instruction is to hardware, and where that is shown.
//!
//! The list stands beside [`super::MNEMONICS`]: a test holds that each of these has a rule, and that the evidence exists.

use std::collections::BTreeMap;

/// Closeness of an instruction's results to hardware's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Every bit is hardware's.
    Exact,
    /// Within that of the exact value, as hardware's results are: `2 ulp`, `rel 2^-22.9`, `abs 2^-20.5`; `|`: either.
    Within(&'static str),
    /// As the manual says, which leaves something open, or on which no GPU was asked.
    Manual,
}

/// Fidelity of some instructions, with its evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FidelityRule {
    /// Their mnemonics, between spaces.
    pub mnemonics: &'static str,
    /// Modifiers that they have, between spaces; `|` stands between alternatives. Empty: those that no rule before this names.
    pub modifiers: &'static str,
    /// How true they are.
    pub fidelity: Fidelity,
    /// Files of `tests/instructions`, which ran on a GPU, between spaces, or a section of a manual.
    pub evidence: &'static str,
}

impl FidelityRule {
    /// The rule of an opcode as it stands in PTX: `ex2.approx.ftz.f32`. `None`: no such instruction runs.
    #[must_use]
    pub fn of(opcode: &str) -> Option<&'static Self> {
        Some(&FIDELITY[Self::number(opcode)?])
    }

    fn number(opcode: &str) -> Option<usize> {
        let parts: Vec<&str> = opcode.split('.').collect();
        let (mnemonic, modifiers) = parts.split_first()?;
        let has = |group: &str| group.split('|').any(|modifier| modifiers.contains(&modifier));
        FIDELITY.iter().position(|rule| {
            rule.mnemonics.split(' ').any(|name| name == *mnemonic) && rule.modifiers.split_whitespace().all(has)
        })
    }

    /// All rules; the first that fits an opcode counts.
    #[must_use]
    pub fn all() -> &'static [Self] {
        FIDELITY
    }

    /// Opcodes by rule, in the order of the rules; without those that have none.
    #[must_use]
    pub fn group<'o>(opcodes: impl IntoIterator<Item = &'o str>) -> Vec<(&'static Self, Vec<&'o str>)> {
        let mut groups: BTreeMap<usize, Vec<&'o str>> = BTreeMap::new();
        for opcode in opcodes {
            if let Some(number) = Self::number(opcode) {
                groups.entry(number).or_default().push(opcode);
            }
        }
        groups.into_iter().map(|(number, opcodes)| (&FIDELITY[number], opcodes)).collect()
    }
}

impl std::fmt::Display for Fidelity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Within(bound) => write!(f, "within {}", bound.replace(" | ", " or ")),
            Self::Manual => f.write_str("by the manual"),
        }
    }
}

use Fidelity::{Exact, Manual, Within};

const fn rule(
    mnemonics: &'static str,
    modifiers: &'static str,
    fidelity: Fidelity,
    evidence: &'static str,
) -> FidelityRule {
    FidelityRule { mnemonics, modifiers, fidelity, evidence }
}

#[rustfmt::skip]
const FIDELITY: &[FidelityRule] = &[
    // Approximate functions
    rule("div", "approx|full f32", Within("2.5 ulp"), "f32_approximate"),
    rule("ex2", "approx f32", Within("2.5 ulp"), "f32_approximate"),
    rule("rcp", "approx f32", Within("1.5 ulp"), "f32_approximate"),
    rule("rsqrt sqrt", "approx f32", Within("rel 2^-22.9"), "f32_approximate"),
    rule("lg2", "approx f32", Within("rel 2^-22 | abs 2^-22"), "f32_approximate"),
    rule("cos sin", "approx f32", Within("abs 2^-20.5"), "f32_approximate"),
    rule("tanh", "approx f32", Within("rel 2^-10.98"), "f32_approximate"),
    rule("ex2", "approx f16|f16x2", Within("rel 2^-9.9 | abs 2^-24"), "f16_approximate"),
    rule("tanh", "approx f16|f16x2", Within("abs 2^-10.987"), "f16_approximate"),
    rule("ex2", "approx bf16|bf16x2", Within("rel 2^-7"), "bf16_approximate"),
    rule("tanh", "approx bf16|bf16x2", Within("abs 2^-8"), "bf16_approximate"),
    rule("rcp rsqrt", "approx f64", Within("rel 2^-19"), "f64_approximate"),

    // Arithmetic
    rule("abs max min neg", "", Exact, "f32_f64_neg_abs_min_max half_neg_abs_min_max int_min_max_abs_neg_sad"),
    rule("add fma sub", "f32 f16|bf16", Manual, "PTX ISA, \"Mixed Precision Floating-Point Instructions\": no GPU that has them was asked; a sum is rounded once"),
    rule("add sub", "", Exact, "f32_add f32_sub f64_add f64_sub f16_arithmetic bf16_arithmetic int_add_sub"),
    rule("mul", "", Exact, "f32_mul f64_mul f16_arithmetic bf16_arithmetic int_mul"),
    rule("fma mad", "", Exact, "f32_fma f64_fma f16_arithmetic half_fma_relu int_mad"),
    rule("div", "s16|u16|s32|u32|s64|u64", Exact, "int_div_rem"),
    rule("rem", "", Exact, "int_div_rem"),
    rule("div rcp sqrt", "", Exact, "f32_div_rcp_sqrt f64_div_rcp_sqrt"),
    rule("addc madc subc", "", Exact, "int_carry carry_mixed"),
    rule("mad24 mul24", "", Exact, "int_mul24"),
    rule("sad", "", Exact, "int_min_max_abs_neg_sad"),
    rule("dp2a dp4a", "", Exact, "int_dot"),
    rule("copysign testp", "", Exact, "testp_copysign"),
    rule("vabsdiff vadd vmad vmax vmin vset vshl vshr vsub", "", Exact, "video_scalar"),
    rule("vabsdiff2 vabsdiff4 vadd2 vadd4 vavrg2 vavrg4 vmax2 vmax4 vmin2 vmin4 vset2 vset4 vsub2 vsub4", "", Exact, "video_simd"),

    // Bits, comparisons, moves
    rule("and cnot not or xor", "", Exact, "bits_logic"),
    rule("shf shl shr", "", Exact, "bits_shift"),
    rule("bfe bfi", "", Exact, "bits_fields"),
    rule("bfind brev clz fns popc", "", Exact, "bits_count"),
    rule("bmsk szext", "", Exact, "bits_mask_extend"),
    rule("lop3 prmt", "", Exact, "bits_lop3_prmt"),
    rule("cvt", "", Exact, "cvt_float cvt_int cvt_int_to_float cvt_float_to_int cvt_bf16 cvt_fp8 cvt_packed"),
    rule("set setp", "", Exact, "set setp_float setp_int setp_bf16 setp_combined"),
    rule("selp slct", "", Exact, "selp_slct"),
    rule("mov", "", Exact, "mov special_registers"),

    // Memory
    rule("ld st", "", Exact, "ld_st_types ld_st_vector ld_st_modifiers"),
    rule("ldu", "", Exact, "prefetch_ldu"),
    rule("atom red", "", Exact, "atom_global atom_shared atom_global_float atom_vector"),
    rule("cp", "bulk", Exact, "bulk_copies bulk_tensor"),
    rule("cp", "", Exact, "cp_async"),
    rule("tensormap", "", Exact, "bulk_tensor"),
    rule("cvta isspacep", "", Exact, "address_spaces"),
    rule("getctarank mapa", "", Exact, "cluster_blocks"),
    rule("istypep", "", Exact, "istypep"),
    rule("alloca stackrestore stacksave", "", Exact, "stack"),
    rule("tex tld4", "", Manual, "CUDA C++ Programming Guide, \"Texture Fetching\": a filter's sums differ from hardware's in the last bits"),
    rule("suld suq sured sust txq", "", Manual, "PTX ISA, \"Surface Instructions\" and \"Texture Instructions\""),
    rule("applypriority createpolicy discard prefetch prefetchu", "", Manual, "PTX ISA, \"Cache Operators\": hints, which change no value"),

    // Threads together
    rule("bar barrier", "", Exact, "barrier cluster_blocks"),
    rule("fence membar", "", Exact, "fences"),
    rule("mbarrier", "", Exact, "mbarrier mbarrier_sm90"),
    rule("clusterlaunchcontrol", "", Manual, "PTX ISA, \"clusterlaunchcontrol.try_cancel\": which clusters are left is the scheduler's choice"),
    rule("elect", "", Exact, "elect"),
    rule("match vote", "", Exact, "vote_match"),
    rule("redux", "", Exact, "redux redux_float"),
    rule("shfl", "", Exact, "shfl"),
    rule("activemask", "", Manual, "PTX ISA, \"activemask\": which lanes run together is the scheduler's choice"),
    rule("griddepcontrol nanosleep pmevent setmaxnreg brkpt", "", Manual, "PTX ISA: time, registers and counters, which change no value"),

    // Matrices
    rule("ldmatrix stmatrix", "", Exact, "ldmatrix stmatrix"),
    rule("movmatrix", "", Exact, "movmatrix"),
    rule("mma", "sp|sp::ordered_metadata e4m3|e5m2", Manual, "PTX ISA, \"mma.sp\": sums of 8-bit floats are rounded once"),
    rule("mma", "", Exact, "mma_sums mma_f64 mma_int8 mma_sub_byte mma_fp8 mma_sparse_float mma_sparse_int"),
    rule("tcgen05", "", Manual, "PTX ISA, \"TensorCore 5th Generation Family Instructions\": no GPU that has it was asked; a sum is rounded once"),
    rule("wgmma", "", Exact, "wgmma_sums wgmma_f16 wgmma_bf16_tf32 wgmma_fp8 wgmma_integers wgmma_sparse"),
    rule("wmma", "", Exact, "mma_sums wmma_f16 wmma_int wmma_bf16_tf32_f64"),

    // Control
    rule("bra brx", "", Exact, "branch"),
    rule("call ret", "", Exact, "call"),
    rule("exit trap", "", Exact, "predication"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mnemonic_has_one_rule_for_all_its_forms() {
        for mnemonic in super::super::MNEMONICS {
            assert!(
                FidelityRule::of(mnemonic).is_some()
                    || ["cos", "ex2", "lg2", "rsqrt", "sin", "tanh"].contains(mnemonic),
                "{mnemonic}"
            );
        }
        for name in FIDELITY.iter().flat_map(|rule| rule.mnemonics.split(' ')) {
            assert!(super::super::knows(name), "{name}");
        }
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let fidelity = |opcode| FidelityRule::of(opcode).map(|rule| rule.fidelity);
        assert_eq!(fidelity("div.rn.f32"), Some(Exact));
        assert_eq!(fidelity("div.full.ftz.f32"), Some(Within("2.5 ulp")));
        assert_eq!(fidelity("tanh.approx.bf16x2"), Some(Within("abs 2^-8")));
        assert_eq!(fidelity("rsqrt.approx.ftz.f64"), Some(Within("rel 2^-19")));
        assert_eq!(fidelity("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32"), Some(Manual));
        assert_eq!(fidelity("multimem.red"), None);
        let groups = FidelityRule::group(["sub.f32", "ret", "ex2.approx.f32", "add.f32"]);
        assert_eq!(groups.iter().map(|(_, opcodes)| opcodes.len()).collect::<Vec<_>>(), [1, 2, 1]);
    }
}
