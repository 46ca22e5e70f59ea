//! The instructions that use only registers, as a table: an opcode pattern and its operands.
//!
//! `{a,b}` in a pattern stands for each of its alternatives. The destination is the first operand; a word is a kind of register
//! ([`Kind::word`]) or
//!
//! | word | what |
//! | --- | --- |
//! | `f64!` | a destination whose NaN is made canonical afterwards, since PTX leaves its payload open |
//! | `pp` | two predicates, `p\|q` |
//! | `P` | a predicate to read, perhaps negated |
//! | `r/` | a divisor: neither 0 nor -1 |
//! | `r8`, `r5` | a register of which the low 8 or 5 bits are taken, where PTX leaves larger values open |
//! | `#255` | a constant from 0 to 255 |

use std::sync::LazyLock;

/// One instruction.
pub(super) struct Form {
    pub opcode: String,
    pub operands: Vec<&'static str>,
}

/// The rows of the table, each with all its forms.
pub(super) static FORMS: LazyLock<Vec<Vec<Form>>> = LazyLock::new(|| expand(TABLE));

/// Sums without a rounding modifier and, separately, such products: a program has only one of the two, since PTX lets a
/// compiler fuse a product with a sum if neither specifies its rounding.
pub(super) static BARE_SUMS: LazyLock<Vec<Vec<Form>>> = LazyLock::new(|| expand(SUMS));
pub(super) static BARE_PRODUCTS: LazyLock<Vec<Vec<Form>>> = LazyLock::new(|| expand(PRODUCTS));

fn expand(table: &[(&str, &'static str)]) -> Vec<Vec<Form>> {
    let row = |(pattern, operands): &(&str, &'static str)| {
        let operands: Vec<_> = operands.split(' ').collect();
        let opcodes = alternatives(pattern).into_iter().filter(|opcode| !saturates_in_vain(opcode));
        opcodes.map(|opcode| Form { opcode, operands: operands.clone() }).collect()
    };
    table.iter().map(row).collect()
}

/// Every string that `pattern` stands for.
fn alternatives(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (choices, after) = rest.split_once('}').expect("a brace is closed");
    let tails = alternatives(after);
    let heads = choices.split(',').map(|choice| format!("{before}{choice}"));
    heads.flat_map(|head| tails.iter().map(move |tail| format!("{head}{tail}"))).collect()
}

/// `cvt.sat` between integers where every source value fits the destination, which PTX refuses.
fn saturates_in_vain(opcode: &str) -> bool {
    let range = |ty: &str| Some((ty.starts_with('s'), ty.strip_prefix(['s', 'u'])?.parse::<u32>().ok()?));
    let Some((to, from)) = opcode.strip_prefix("cvt.sat.").and_then(|types| types.split_once('.')) else {
        return false;
    };
    match (range(to), range(from)) {
        (Some((false, _)), Some((true, _))) => false,
        (Some((to_signed, to)), Some((from_signed, from))) => to >= from + u32::from(to_signed != from_signed),
        _ => false,
    }
}

#[rustfmt::skip]
const SUMS: &[(&str, &str)] = &[
    ("{add,sub}{,.ftz}{,.sat}.f32", "f32 f32 f32"),
    ("{add,sub}.f64", "f64! f64 f64"),
    ("{add,sub}{,.ftz}{,.sat}.f16", "f16 f16 f16"),
    ("{add,sub}{,.ftz}{,.sat}.f16x2", "f16x2 f16x2 f16x2"),
    ("{add,sub}.bf16", "bf16 bf16 bf16"),
    ("{add,sub}.bf16x2", "bf16x2 bf16x2 bf16x2"),
];

#[rustfmt::skip]
const PRODUCTS: &[(&str, &str)] = &[
    ("mul{,.ftz}{,.sat}.f32", "f32 f32 f32"),
    ("mul.f64", "f64! f64 f64"),
    ("mul{,.ftz}{,.sat}.f16", "f16 f16 f16"),
    ("mul{,.ftz}{,.sat}.f16x2", "f16x2 f16x2 f16x2"),
    ("mul.bf16", "bf16 bf16 bf16"),
    ("mul.bf16x2", "bf16x2 bf16x2 bf16x2"),
];

#[rustfmt::skip]
const TABLE: &[(&str, &str)] = &[
    // Integer arithmetic
    ("{add,sub}.{u16,s16}", "h h h"),
    ("{add,sub}.{u32,s32}", "r r r"),
    ("{add,sub}.{u64,s64}", "l l l"),
    ("{add,sub}.sat.s32", "r r r"),
    ("add.{u16x2,s16x2}", "r r r"),
    ("mul.{lo,hi}.{u16,s16}", "h h h"),
    ("mul.{lo,hi}.{u32,s32}", "r r r"),
    ("mul.{lo,hi}.{u64,s64}", "l l l"),
    ("mul.wide.{u16,s16}", "r h h"),
    ("mul.wide.{u32,s32}", "l r r"),
    ("mad.{lo,hi}.{u16,s16}", "h h h h"),
    ("mad.{lo,hi}.{u32,s32}", "r r r r"),
    ("mad.{lo,hi}.{u64,s64}", "l l l l"),
    ("mad.wide.{u16,s16}", "r h h r"),
    ("mad.wide.{u32,s32}", "l r r l"),
    ("mad.hi.sat.s32", "r r r r"),
    ("mul24.{lo,hi}.{u32,s32}", "r r r"),
    ("mad24.{lo,hi}.{u32,s32}", "r r r r"),
    ("mad24.hi.sat.s32", "r r r r"),
    ("sad.{u16,s16}", "h h h h"),
    ("sad.{u32,s32}", "r r r r"),
    ("sad.{u64,s64}", "l l l l"),
    ("{div,rem}.{u16,s16}", "h h h/"),
    ("{div,rem}.{u32,s32}", "r r r/"),
    ("{div,rem}.{u64,s64}", "l l l/"),
    ("{abs,neg}.s16", "h h"),
    ("{abs,neg}.s32", "r r"),
    ("{abs,neg}.s64", "l l"),
    ("{min,max}.{u16,s16}", "h h h"),
    ("{min,max}.{u32,s32,u16x2,s16x2,relu.s32,relu.s16x2}", "r r r"),
    ("{min,max}.{u64,s64}", "l l l"),
    ("dp4a.{u32,s32}.{u32,s32}", "r r r r"),
    ("dp2a.{lo,hi}.{u32,s32}.{u32,s32}", "r r r r"),
    ("vabsdiff{2,4}.u32.u32.u32{,.add}", "r r r r"),
    // Bits
    ("{and,or,xor}.b16", "h h h"),
    ("{and,or,xor}.b32", "r r r"),
    ("{and,or,xor}.b64", "l l l"),
    ("{and,or,xor}.pred", "p p p"),
    ("not.pred", "p p"),
    ("{not,cnot}.b16", "h h"),
    ("{not,cnot}.b32", "r r"),
    ("{not,cnot}.b64", "l l"),
    ("{shl.b16,shr.b16,shr.u16,shr.s16}", "h h r"),
    ("{shl.b32,shr.b32,shr.u32,shr.s32}", "r r r"),
    ("{shl.b64,shr.b64,shr.u64,shr.s64}", "l l r"),
    ("{shl.b16,shr.s16}", "h h r5"),
    ("{shl.b32,shr.u32,shr.s32}", "r r r5"),
    ("{shl.b64,shr.u64,shr.s64}", "l l r5"),
    ("shf.{l,r}.{clamp,wrap}.b32", "r r r r"),
    // The driver's compiler folds positions and lengths beyond a register wrongly if they are constants; the instruction tests
    // use registers for them.
    ("bfe.{u32,s32}", "r r r5 r5"),
    ("bfe.{u64,s64}", "l l r5 r5"),
    ("bfi.b32", "r r r r5 r5"),
    ("bfi.b64", "l l l r5 r5"),
    ("bfind{,.shiftamt}.{u32,s32}", "r r"),
    ("bfind{,.shiftamt}.{u64,s64}", "r l"),
    ("{popc,clz,brev}.b32", "r r"),
    ("{popc,clz}.b64", "r l"),
    ("brev.b64", "l l"),
    ("fns.b32", "r r r5 r5"),
    ("bmsk.{clamp,wrap}.b32", "r r r"),
    ("szext.{clamp,wrap}.{u32,s32}", "r r r"),
    ("prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}", "r r r r"),
    ("lop3.b32", "r r r r #255"),
    // f32
    ("{add,sub,mul}.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32", "f32 f32 f32"),
    ("{fma,mad}.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32", "f32 f32 f32 f32"),
    ("div.{rn,rz,rm,rp}{,.ftz}.f32", "f32 f32 f32"),
    ("{rcp,sqrt}.{rn,rz,rm,rp}{,.ftz}.f32", "f32 f32"),
    ("{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32", "f32 f32 f32"),
    ("{abs,neg}{,.ftz}.f32", "f32! f32"),
    ("copysign.f32", "f32! f32 f32"),
    ("testp.{finite,infinite,number,notanumber,normal,subnormal}.f32", "p f32"),
    // f64
    ("{add,sub,mul}.{rn,rz,rm,rp}.f64", "f64! f64 f64"),
    ("{fma,mad}.{rn,rz,rm,rp}.f64", "f64! f64 f64 f64"),
    ("div.{rn,rz,rm,rp}.f64", "f64! f64 f64"),
    ("{rcp,sqrt}.{rn,rz,rm,rp}.f64", "f64! f64"),
    ("{min,max}.f64", "f64! f64 f64"),
    ("{abs,neg}.f64", "f64! f64"),
    ("copysign.f64", "f64! f64 f64"),
    ("testp.{finite,infinite,number,notanumber,normal,subnormal}.f64", "p f64"),
    // Halves
    ("{add,sub,mul}.rn{,.ftz}{,.sat}.f16", "f16 f16 f16"),
    ("{add,sub,mul}.rn{,.ftz}{,.sat}.f16x2", "f16x2 f16x2 f16x2"),
    ("fma.rn{,.ftz}{,.sat,.relu}.f16", "f16 f16 f16 f16"),
    ("fma.rn{,.ftz}{,.sat,.relu}.f16x2", "f16x2 f16x2 f16x2 f16x2"),
    ("{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16", "f16 f16 f16"),
    ("{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16x2", "f16x2 f16x2 f16x2"),
    ("{abs,neg}{,.ftz}.f16", "f16! f16"),
    ("{abs,neg}{,.ftz}.f16x2", "f16x2! f16x2"),
    ("{add,sub,mul}.rn.bf16", "bf16 bf16 bf16"),
    ("{add,sub,mul}.rn.bf16x2", "bf16x2 bf16x2 bf16x2"),
    ("fma.rn{,.relu}.bf16", "bf16 bf16 bf16 bf16"),
    ("fma.rn{,.relu}.bf16x2", "bf16x2 bf16x2 bf16x2 bf16x2"),
    ("{min,max}{,.NaN}{,.xorsign.abs}.bf16", "bf16 bf16 bf16"),
    ("{min,max}{,.NaN}{,.xorsign.abs}.bf16x2", "bf16x2 bf16x2 bf16x2"),
    ("{abs,neg}.bf16", "bf16! bf16"),
    ("{abs,neg}.bf16x2", "bf16x2! bf16x2"),
    // Comparison and selection
    ("setp.{eq,ne,lt,le,gt,ge}.{u16,s16}", "p h h"),
    ("setp.{eq,ne,lt,le,gt,ge}.{u32,s32}", "p r r"),
    ("setp.{eq,ne,lt,le,gt,ge}.{u64,s64}", "p l l"),
    ("setp.{lo,ls,hi,hs}.u16", "p h h"),
    ("setp.{lo,ls,hi,hs}.u32", "p r r"),
    ("setp.{lo,ls,hi,hs}.u64", "p l l"),
    ("setp.{eq,ne}.b16", "p h h"),
    ("setp.{eq,ne}.b32", "p r r"),
    ("setp.{eq,ne}.b64", "p l l"),
    ("setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f32", "p f32 f32"),
    ("setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64", "p f64 f64"),
    ("setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f16", "p f16 f16"),
    ("setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f16x2", "pp f16x2 f16x2"),
    ("setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.bf16", "p bf16 bf16"),
    ("setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.bf16x2", "pp bf16x2 bf16x2"),
    ("setp.{eq,lt,ge}.{and,or,xor}.{u16,s16}", "pp h h P"),
    ("setp.{eq,lt,ge}.{and,or,xor}.{u32,s32}", "pp r r P"),
    ("setp.{eq,lt,ge}.{and,or,xor}.{u64,s64}", "pp l l P"),
    ("setp.{eq,lt,geu,nan}.{and,or,xor}{,.ftz}.f32", "pp f32 f32 P"),
    ("setp.{eq,lt,geu,nan}.{and,or,xor}.f64", "pp f64 f64 P"),
    ("setp.{eq,lt,geu,nan}.{and,or,xor}{,.ftz}.f16", "p f16 f16 P"),
    ("set.{eq,ne,lt,ge}.{u32,s32}.{u32,s32}", "r r r"),
    ("set.{eq,ne,lt,ge}.f32.{u32,s32}", "f32 r r"),
    ("set.{eq,lt}.{u32,s32}.{u16,s16}", "r h h"),
    ("set.{eq,lt}.{u32,s32}.{u64,s64}", "r l l"),
    ("set.{eq,ne,lt,ge,equ,neu,ltu,geu,num,nan}{,.ftz}.{u32,s32}.f32", "r f32 f32"),
    ("set.{eq,ne,lt,ge,equ,neu,ltu,geu,num,nan}{,.ftz}.f32.f32", "f32 f32 f32"),
    ("set.{eq,ne,lt,ge,equ,neu,ltu,geu,num,nan}.{u32,s32}.f64", "r f64 f64"),
    ("set.{eq,lt,ge}.{and,or,xor}.{u32,s32}.{u32,s32}", "r r r P"),
    ("set.{eq,lt,leu}.{and,or,xor}{,.ftz}.f32.f32", "f32 f32 f32 P"),
    ("set.{eq,ne,lt,ge,equ,neu,ltu,geu,num,nan}{,.ftz}.f16.f16", "f16 f16 f16"),
    ("set.{eq,ne,lt,ge,equ,neu,ltu,geu,num,nan}{,.ftz}.f16x2.f16x2", "f16x2 f16x2 f16x2"),
    ("set.{eq,ne,lt,ge,equ,neu,ltu,geu,num,nan}.bf16.bf16", "bf16 bf16 bf16"),
    ("set.{eq,ne,lt,ge,equ,neu,ltu,geu,num,nan}.bf16x2.bf16x2", "bf16x2 bf16x2 bf16x2"),
    ("selp.{b16,u16,s16}", "h h h p"),
    ("selp.{b32,u32,s32}", "r r r p"),
    ("selp.{b64,u64,s64}", "l l l p"),
    ("selp.f32", "f32 f32 f32 p"),
    ("selp.f64", "f64 f64 f64 p"),
    ("slct.{b16,u16,s16}.s32", "h h h r"),
    ("slct.{b32,u32,s32}.s32", "r r r r"),
    ("slct.{b64,u64,s64}.s32", "l l l r"),
    ("slct.f32.s32", "f32 f32 f32 r"),
    ("slct{,.ftz}.{b32,u32,s32}.f32", "r r r f32"),
    ("slct{,.ftz}.f32.f32", "f32 f32 f32 f32"),
    ("slct{,.ftz}.{b64,u64,s64}.f32", "l l l f32"),
    ("slct.f64.s32", "f64 f64 f64 r"),
    // Conversions between integers; registers may be wider than the types
    ("cvt{,.sat}.{u8,s8,u16,s16}.{u8,s8,u16,s16}", "h h"),
    ("cvt{,.sat}.{u8,s8,u16,s16}.{u32,s32}", "h r"),
    ("cvt{,.sat}.{u8,s8,u16,s16}.{u64,s64}", "h l"),
    ("cvt{,.sat}.{u32,s32}.{u8,s8,u16,s16}", "r h"),
    ("cvt{,.sat}.{u8,s8,u16,s16,u32,s32}.{u8,s8,u16,s16,u32,s32}", "r r"),
    ("cvt{,.sat}.{u8,s8,u16,s16,u32,s32}.{u64,s64}", "r l"),
    ("cvt{,.sat}.{u64,s64}.{u8,s8,u16,s16}", "l h"),
    ("cvt{,.sat}.{u64,s64}.{u8,s8,u16,s16,u32,s32}", "l r"),
    ("cvt{,.sat}.{u8,s8,u16,s16,u32,s32,u64,s64}.{u8,s8,u16,s16,u32,s32,u64,s64}", "l l"),
    ("cvt.pack.sat.{u16,s16}.s32", "r r r"),
    ("cvt.pack.sat.{u8,s8,u4,s4,u2,s2}.s32.b32", "r r r r"),
    // … from floats to integers
    ("cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.{u16,s16}.f32", "h f32"),
    ("cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.{u8,s8,u32,s32}.f32", "r f32"),
    ("cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.{u64,s64}.f32", "l f32"),
    ("cvt.{rni,rzi,rmi,rpi}{,.sat}.{u16,s16}.f64", "h f64"),
    ("cvt.{rni,rzi,rmi,rpi}{,.sat}.{u8,s8,u32,s32}.f64", "r f64"),
    ("cvt.{rni,rzi,rmi,rpi}{,.sat}.{u64,s64}.f64", "l f64"),
    ("cvt.{rni,rzi,rmi,rpi}{,.sat}.{u16,s16}.f16", "h f16"),
    ("cvt.{rni,rzi,rmi,rpi}{,.sat}.{u8,s8,u32,s32}.f16", "r f16"),
    ("cvt.{rni,rzi,rmi,rpi}{,.sat}.{u64,s64}.f16", "l f16"),
    ("cvt.{rni,rzi,rmi,rpi}.{u16,s16}.bf16", "h bf16"),
    ("cvt.{rni,rzi,rmi,rpi}.{u32,s32}.bf16", "r bf16"),
    ("cvt.{rni,rzi,rmi,rpi}.{u64,s64}.bf16", "l bf16"),
    // … from integers to floats
    ("cvt.{rn,rz,rm,rp}{,.sat}.f32.{u8,s8,u16,s16}", "f32 h"),
    ("cvt.{rn,rz,rm,rp}{,.sat}.f32.{u8,s8,u16,s16,u32,s32}", "f32 r"),
    ("cvt.{rn,rz,rm,rp}{,.sat}.f32.{u64,s64}", "f32 l"),
    ("cvt.{rn,rz,rm,rp}{,.sat}.f64.{u16,s16}", "f64 h"),
    ("cvt.{rn,rz,rm,rp}{,.sat}.f64.{u8,s8,u32,s32}", "f64 r"),
    ("cvt.{rn,rz,rm,rp}{,.sat}.f64.{u64,s64}", "f64 l"),
    ("cvt.{rn,rz,rm,rp}{,.sat}.f16.{u16,s16}", "f16 h"),
    ("cvt.{rn,rz,rm,rp}{,.sat}.f16.{u8,s8,u32,s32}", "f16 r"),
    ("cvt.{rn,rz,rm,rp}{,.sat}.f16.{u64,s64}", "f16 l"),
    ("cvt.{rn,rz,rm,rp}.bf16.{u16,s16}", "bf16 h"),
    ("cvt.{rn,rz,rm,rp}.bf16.{u32,s32}", "bf16 r"),
    ("cvt.{rn,rz,rm,rp}.bf16.{u64,s64}", "bf16 l"),
    // … between floats
    ("cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32.f64", "f32 f64"),
    ("cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f16.f32", "f16 f32"),
    ("cvt.{rn,rz,rm,rp}{,.sat}.f16.f64", "f16 f64"),
    ("cvt.{rn,rz,rm,rp}.bf16.f32", "bf16 f32"),
    ("cvt.{rn,rz,rm,rp}.bf16.f16", "bf16 f16"),
    ("cvt.{rn,rz,rm,rp}.bf16.f64", "bf16 f64"),
    ("cvt.{rn,rz,rm,rp}.f16.bf16", "f16 bf16"),
    ("cvt{,.ftz}{,.sat}.f64.f32", "f64! f32"),
    ("cvt{,.ftz}{,.sat}.f32.f16", "f32 f16"),
    ("cvt{,.sat}.f64.f16", "f64! f16"),
    ("cvt{,.ftz}.f32.bf16", "f32! bf16"),
    ("cvt.f64.bf16", "f64! bf16"),
    ("cvt.{rn,rz}.relu.f16.f32", "f16 f32"),
    ("cvt.{rn,rz}.relu.bf16.f32", "bf16 f32"),
    ("cvt.{rn,rz}{,.relu}{,.satfinite}.f16x2.f32", "f16x2 f32 f32"),
    ("cvt.{rn,rz}{,.relu}{,.satfinite}.bf16x2.f32", "bf16x2 f32 f32"),
    ("cvt.rna.tf32.f32", "f32! f32"),
    ("cvt.{rn,rz}{,.relu}.tf32.f32", "f32! f32"),
    ("cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32", "h f32 f32"),
    ("cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2", "h f16x2"),
    ("cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}", "f16x2! h"),
    ("cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.f32.f32", "f32 f32"),
    ("cvt.{rni,rzi,rmi,rpi}{,.sat}.f64.f64", "f64! f64"),
    ("cvt.{rni,rzi,rmi,rpi}{,.sat}.f16.f16", "f16 f16"),
    ("cvt.{rni,rzi,rmi,rpi}.bf16.bf16", "bf16 bf16"),
    // Moves, between types too
    ("mov.{b16,u16,s16}", "h h"),
    ("mov.{b32,u32,s32}", "r r"),
    ("mov.{b64,u64,s64}", "l l"),
    ("mov.f32", "f32 f32"),
    ("mov.f64", "f64 f64"),
    ("mov.pred", "p p"),
    ("mov.b32", "r f32"),
    ("mov.b32", "f32! r"),
    ("mov.b64", "l f64"),
    ("mov.b64", "f64! l"),
    ("mov.b16", "f16! h"),
    ("mov.b16", "h bf16"),
    ("mov.b32", "f16x2! r"),
    ("mov.b32", "bf16x2! r"),
    ("mov.b32", "r f16x2"),
];
