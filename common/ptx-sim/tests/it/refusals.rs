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
            one("tcgen05.cp.cta_group::1.128x256b", 2, "the instruction tcgen05"),
            one("tcgen05.fence::before_thread_sync", 1, "the instruction tcgen05"),
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
        (80, "ret 0;", "ret takes no operands"),
        (90, "setmaxnreg.inc.sync.aligned.u32 100;", "setmaxnreg takes a multiple of 8 from 24 to 256"),
        (80, "cvt.f32.f64 %f1, %fd1;", "cvt of .f64 to .f32 needs a rounding modifier, such as .rn"),
        (80, "cvt.s32.f32 %r1, %f1;", "cvt of .f32 to .s32 needs a rounding modifier, such as .rzi"),
        (80, "cvt.f32.s32 %f1, %r1;", "cvt of .s32 to .f32 needs a rounding modifier, such as .rn"),
        (80, "cvt.rn.f64.f32 %fd1, %f1;", "does not take a rounding modifier"),
        (80, "cvt.rni.s32.s64 %r1, %rd1;", "does not take a rounding modifier"),
        (80, "cvt.f16x2.f32 %r1, %f1, %f2;", "needs a rounding modifier, such as .rn"),
        (80, "div.f32 %f1, %f2, %f3;", "needs a rounding modifier, such as .rn, or .approx"),
        (80, "fma.f64 %fd1, %fd2, %fd3, %fd4;", "needs a rounding modifier, such as .rn"),
        (80, "rsqrt.f32 %f1, %f2;", "needs the modifier .approx"),
        (80, "add.u32 %r1, %f2, %r2;", "add of .u32 cannot use `%f2`, a .f32 register"),
        (80, "add.f32 %f1, %u2, %f2;", "add of .f32 cannot use `%u2`, a .u32 register"),
        (80, "red.exch.b32 [%rd1], %r1;", "red has no .exch"),
        (80, "lop3.xor.b32 %r1|%p1, %r1, %r2, %r3, 5, %p2;", "by .or and .and only"),
        (30, "shf.l.wrap.b32 %r1, %r2, %r3, %r4;", "shf needs .target sm_32"),
    ] {
        let ptx = format!(
            ".version 8.6\n.target sm_{target}\n.address_size 64\n.visible .entry k() {{ {registers}\n{instruction}\nret; }}"
        );
        match Module::from_ptx(&ptx, "k.ptx") {
            Err(LoadError::Syntax { line: 5, message, .. }) => {
                assert!(message.contains(said), "{instruction}: {message}")
            }
            other => panic!("{instruction}: {other:?}"),
        }
    }
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
