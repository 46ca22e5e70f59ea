//! Refusals: unsupported PTX is refused kernel by kernel, by name, as a limit of the simulator; text that is not PTX is
//! refused as such. `ptxas` decides which is which.

use ptx_sim::{Arg, Device, LaunchConfig, LoadError, Module, Unsupported};

const REFUSED: &str = include_str!("../kernels/refused.ptx");

/// Reasons why the kernel cannot be had: form, number of times and reason of each.
fn reasons(kernel: &str) -> Vec<(String, usize, String)> {
    let device = Device::new(Default::default());
    let module = Module::from_ptx(REFUSED, "refused.ptx").expect("the file itself is fine");
    let module = device.load(&module).expect("it fits");
    match module.kernel(kernel) {
        Err(LoadError::Unsupported { items, .. }) => {
            let forms = Unsupported::forms(&items).into_iter();
            forms.map(|form| (form.form, form.lines.len(), form.reason)).collect()
        }
        other => panic!("{kernel}: {other:?}"),
    }
}

fn one(form: &str, count: usize, reason: &str) -> (String, usize, String) {
    (form.into(), count, reason.into())
}

#[test]
fn a_kernel_is_refused_for_what_it_has_itself() {
    assert_eq!(
        reasons("special"),
        [
            one("mov.u32", 1, "the special register %reserved_smem_offset_9"),
            one("mov.u32", 1, "the special register %moon_phase_3"),
        ]
    );
    assert_eq!(
        reasons("syntax"),
        [one(".flavour", 1, "the directive .flavour"), one("frobnicate.sync.b32", 1, "the instruction frobnicate"),]
    );
    assert_eq!(
        reasons("tiles"),
        [
            one(".newdirective", 1, "the directive .newdirective"),
            one("multimem.cp.sync", 2, "the instruction multimem"),
            one("multimem.fence", 1, "the instruction multimem"),
            one("multimem.red.relaxed.sys.global.add.u32", 1, "the instruction multimem"),
        ]
    );
}

#[test]
fn what_one_kernel_lacks_is_no_concern_of_the_next() {
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(REFUSED, "refused.ptx").unwrap()).unwrap();
    let out = device.alloc(4, "out").unwrap();
    module.kernel("runs").unwrap().launch(&LaunchConfig::default(), &[Arg::from(out)]).unwrap();
    let mut bytes = [0; 4];
    device.read(out, &mut bytes).unwrap();
    assert_eq!(bytes, [7, 0, 0, 0]);
}

/// Texts that ptxas refuses, with the simulator's message.
#[test]
fn what_ptxas_refuses_is_no_ptx() {
    let registers = ".reg .pred %p<3>; .reg .b16 %h<5>; .reg .b32 %r<5>; .reg .u32 %u<5>; .reg .f32 %f<5>; .reg .b64 %rd<5>; .reg .f64 %fd<5>;";
    for (target, instruction, said) in [
        ("80", "ret 0;", "ret takes no operands"),
        ("90a", "setmaxnreg.inc.sync.aligned.u32 100;", "setmaxnreg takes a multiple of 8 from 24 to 256"),
        ("80", "cvt.f32.f64 %f1, %fd1;", "cvt of .f64 to .f32 needs a rounding modifier, such as .rn"),
        ("80", "cvt.s32.f32 %r1, %f1;", "cvt of .f32 to .s32 needs a rounding modifier, such as .rzi"),
        ("80", "cvt.f32.s32 %f1, %r1;", "cvt of .s32 to .f32 needs a rounding modifier, such as .rn"),
        ("80", "cvt.rn.f64.f32 %fd1, %f1;", "does not take a rounding modifier"),
        ("80", "cvt.rni.s32.s64 %r1, %rd1;", "does not take a rounding modifier"),
        ("80", "cvt.f16x2.f32 %r1, %f1, %f2;", "needs a rounding modifier, such as .rn"),
        ("80", "div.f32 %f1, %f2, %f3;", "needs a rounding modifier, such as .rn, or .approx"),
        ("80", "fma.f64 %fd1, %fd2, %fd3, %fd4;", "needs a rounding modifier, such as .rn"),
        ("80", "rsqrt.f32 %f1, %f2;", "needs the modifier .approx"),
        ("80", "add.u32 %r1, %f2, %r2;", "a .f32 register cannot be used where the instruction has a .u32"),
        ("80", "add.f32 %f1, %u2, %f2;", "a .u32 register cannot be used where the instruction has a .f32"),
        ("80", "red.exch.b32 [%rd1], %r1;", "red has no .exch"),
        ("80", "lop3.xor.b32 %r1|%p1, %r1, %r2, %r3, 5, %p2;", "by .or and .and only"),
        ("80", "st.global.u32 [%rd1], %f1;", "a .f32 register cannot be used where the instruction has a .u32"),
        ("80", "ld.global.u32 %f1, [%rd1];", "a .f32 register cannot be used where the instruction has a .u32"),
        ("80", "st.global.f32 [%rd1], %u1;", "a .u32 register cannot be used where the instruction has a .f32"),
        ("80", "ld.global.f16 %h1, [%rd1];", "memory holds no .f16"),
        ("80", "cvt.rn.f32.s32 %u1, %r1;", "a .u32 register cannot be used where the instruction has a .f32"),
        ("80", "cvt.u64.u32 %r1, %r2;", "a .b32 register cannot hold .u64, which is wider"),
        ("80", "mov.u32 %r1, %f1;", "a .f32 register cannot be used where the instruction has a .u32"),
        ("80", "add.f32 %f1, %f2, 1;", "an integer is no .f32"),
        ("80", "atom.global.add.f16 %h1, [%rd1], %h2;", "atom.add of .f16 needs the modifier .noftz"),
        ("90", "red.global.add.bf16x2 [%rd1], %r1;", "red.add of .bf16x2 needs the modifier .noftz"),
        ("80", "atom.global.add.b32 %r1, [%rd1], %r2;", "atom.add has no .b32"),
        ("80", "atom.global.add.s64 %rd1, [%rd2], %rd3;", "atom.add has no .s64"),
        ("80", "atom.global.and.u32 %r1, [%rd1], %r2;", "atom.and has no .u32"),
        ("80", "atom.global.exch.f32 %f1, [%rd1], %f2;", "atom.exch has no .f32"),
        ("80", "atom.local.add.u32 %r1, [%rd1], %r2;", "atom has no .local"),
        (
            "80",
            "cp.async.bulk.commit_group;",
            "cp.async.bulk needs .target sm_90 or a later one, and the file has sm_80",
        ),
        ("80", "cp.async.cg.shared.global [%r1], [%rd1], 4;", "cp.async.cg copies 16 bytes"),
        ("75", "cp.async.commit_group;", "cp.async needs .target sm_80"),
        ("75", "redux.sync.add.s32 %r1, %r2, -1;", "redux needs .target sm_80"),
        ("75", "mbarrier.init.shared.b64 [%r1], 1;", "mbarrier needs .target sm_80"),
        ("80", "mbarrier.try_wait.shared.b64 %p1, [%r1], %rd1;", "mbarrier.try_wait needs .target sm_90"),
        ("80", "ld.shared::cluster.u32 %r1, [%r2];", "shared::cluster needs .target sm_90"),
        ("80", "elect.sync %r1|%p1, -1;", "elect needs .target sm_90"),
        ("90", "wgmma.fence.sync.aligned;", "wgmma needs .target sm_90a, and no other one"),
        ("90", "ld.global.v3.u32 {%r1, %r2, %r3}, [%rd1];", "PTX has no .v3: vectors are .v2, .v4 and .v8"),
        ("90", "ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r1, %r2, %r3, %r4}, [%rd1];", "at most 16 bytes"),
        ("80", "ld.global.b33 %r1, [%rd1];", "PTX has no type .b33"),
        ("80", "frob.u32 %r1;", "PTX has no instruction `frob`"),
        ("80", "r = s;", "PTX has no instruction `r`"),
        ("80", ".flavour 3;", "PTX has no directive `.flavour`"),
        ("80", "bar.sync 16;", "a block has barriers 0 to 15"),
        ("80", "bar.sync 0, 33;", "is a multiple of 32"),
        ("80", "add.sat.u32 %r1, %r2, %r3;", "add of .u32 takes no modifier .sat"),
        ("80", "add.rn.s32 %r1, %r2, %r3;", "add of .s32 takes no rounding modifier"),
        ("80", "add.ftz.f64 %fd1, %fd2, %fd3;", "add of .f64 takes no modifier .ftz"),
        ("80", "mul.approx.f32 %f1, %f2, %f3;", "mul of .f32 takes no modifier .approx"),
        ("90", "fma.rn.relu.f32 %f1, %f2, %f3, %f4;", "fma of .f32 takes no modifier .relu"),
        ("90", "max.relu.f32 %f1, %f2, %f3;", "max of .f32 takes no modifier .relu"),
        ("90", "add.f32.f16 %f1, %h1, %f2;", "add.f32.f16 needs .target sm_100"),
        ("100", "add.ftz.f32.f16 %f1, %h1, %f2;", "add of .f32 and .f16 takes a rounding and .sat alone"),
        ("100", "mad.rn.f32.bf16 %f1, %h1, %h2, %f3;", "PTX has no mad of .f32 and .bf16"),
        ("80", "ld.acquire.global.u32 %r1, [%rd1];", "ld.acquire needs a scope"),
        ("80", "st.acquire.gpu.global.u32 [%rd1], %r1;", "st has no .acquire"),
        ("80", "ld.gpu.global.u32 %r1, [%rd1];", "a scope, .gpu, needs an order"),
        ("80", "ld.global.nc.volatile.u32 %r1, [%rd1];", ".nc is for plain loads of .global memory"),
        ("80", "st.const.u32 [%rd1], %r1;", "st has no .const"),
        ("80", "st.param.u32 [a], %r1;", "`a` is a parameter of the kernel"),
        ("80", ".reg .b32 %r<3>;", "`%r` is declared twice"),
        ("80", ".reg .b32 a;", "`a` is declared twice"),
        ("80", ".reg .b32 %r1;", "`%r1` is declared twice"),
        ("80", ".shared .b32 x; .reg .f32 x;", "`x` is declared twice"),
        ("80", ".reg .b32 x; x:", "`x` is declared twice"),
        ("30", "shf.l.wrap.b32 %r1, %r2, %r3, %r4;", "shf needs .target sm_32 or a later one, and the file has sm_30"),
    ] {
        let ptx = format!(
            ".version 8.6\n.target sm_{target}\n.address_size 64\n.visible .entry k(.param .u32 a) {{ {registers}\n{instruction}\nret; }}"
        );
        match Module::from_ptx(&ptx, "k.ptx") {
            Err(LoadError::Syntax { line: 5, message, .. }) => {
                assert!(message.contains(said), "{instruction}: {message}")
            }
            other => panic!("{instruction}: {other:?}"),
        }
    }
}

/// Names of the whole file, which ptxas refuses twice, too.
#[test]
fn a_name_of_the_file_is_declared_once() {
    let read =
        |text: &str| Module::from_ptx(&format!(".version 8.6\n.target sm_80\n.address_size 64\n{text}"), "k.ptx");
    for text in [
        ".global .b32 g; .global .b32 g;",
        ".global .b32 g; .const .b32 g;",
        ".global .b32 f; .func f() { ret; }",
        ".func f() { ret; } .func f() { ret; }",
        ".func (.reg .b32 r) f(.reg .b32 r) { ret; }",
        ".visible .entry k(.param .u64 a, .param .u32 a) { ret; }",
    ] {
        let error = read(text).expect_err(text);
        assert!(error.to_string().contains(" twice"), "{text}: {error}");
    }
    for text in [
        ".extern .global .b32 g; .extern .global .b32 g;",
        ".extern .global .b32 g; .visible .global .b32 g;",
        ".extern .shared .b8 s[]; .extern .shared .b8 s[];",
        ".func f(); .func f() { ret; }",
        ".global .b32 g; .func f() { .reg .b32 g; { .reg .b32 g; } ret; }",
    ] {
        assert!(read(text).is_ok(), "{text}");
    }
}

/// An instruction of a PTX that is newer than all that is known here may be right.
#[test]
fn a_newer_version_may_have_new_instructions() {
    let text = ".version 9.9\n.target sm_80\n.address_size 64\n.visible .entry k() { frob.u32 {a}, <b>; ret; }";
    let module = Module::from_ptx(text, "k.ptx").expect("it may be PTX");
    assert_eq!(module.kernels().next().map(|kernel| kernel.unsupported.len()), Some(1));
}

/// Textures by name as parameters: instructions that read them are refused, and the file is PTX all the same.
#[test]
fn textures_as_parameters_refuse_what_reads_them() {
    let text = "
        .version 8.0
        .target sm_80
        .address_size 64
        .visible .entry reads(.param .texref t, .param .surfref s) {
            .reg .f32 %f<5>; .reg .b32 %r<2>;
            tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [t, {%r1}];
            ret;
        }
        .visible .entry idle(.param .texref t) { ret; }";
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(text, "named.ptx").expect("it is PTX")).expect("it fits");
    let Err(LoadError::Unsupported { items, .. }) = module.kernel("reads") else { panic!("it is refused") };
    assert_eq!(items.iter().map(|item| item.reason.as_str()).collect::<Vec<_>>(), ["textures and surfaces by name"]);
    assert!(module.kernel("idle").is_ok());
}
