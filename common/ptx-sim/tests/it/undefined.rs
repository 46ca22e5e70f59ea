//! Undefined values: copied at will, and reported where they decide something.

use super::findings_with_reads;
use ptx_sim::{Arg, Device, DeviceConfig, DevicePtr, Fault, FaultKind, LaunchConfig, MemoryError, Module};

const LOAD: &str = "ld.shared.u32 %r1, [unset];";

/// A module of kernels `k0`, `k1` … with these bodies and the parameters `%rd1` and `%rd2`, buffers. `%r1` is undefined:
/// line 13 loads it.
fn module(bodies: &[&str]) -> String {
    let kernel = |(number, body): (usize, &&str)| {
        format!(
            ".visible .entry k{number}(.param .u64 first, .param .u64 second) {{\n\
             .reg .b16 %h<9>; .reg .b32 %r<12>; .reg .b64 %rd<12>; .reg .f32 %f<9>; .reg .pred %p<9>;\n\
             .shared .align 16 .b8 unset{number}[32]; .shared .align 16 .b8 tile{number}[64];\n\
             .local .align 16 .b8 mine{number}[64];\n\
             ld.param.u64 %rd1, [first]; ld.param.u64 %rd2, [second];\n\
             {}\n}}\n",
            body.replace("LOAD", LOAD)
                .replace("unset", &format!("unset{number}"))
                .replace("tile", &format!("tile{number}"))
                .replace("mine", &format!("mine{number}")),
        )
    };
    let kernels: String = bodies.iter().enumerate().map(kernel).collect();
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .func (.reg .b32 out, .reg .pred holds) copied(.reg .b32 in, .reg .pred p) {{ mov.b32 out, in; mov.pred holds, p; ret; }}\
         .func (.reg .b32 out) from_memory(.param .b32 in) {{ ld.param.b32 out, [in]; ret; }}\
         .func (.param .b64 out) same(.param .align 8 .b8 in[16]) {{\n.reg .b64 %rd<2>;\n\
         ld.param.b64 %rd1, [in+8]; st.param.b64 [out], %rd1; ret;\n}}\n{kernels}"
    )
}

struct Run {
    device: Device,
    buffers: [DevicePtr; 2],
    findings: Vec<Fault>,
}

/// Launches the kernels one after the other, each with one thread, and reads the first buffer; the second one is written.
fn run(bodies: &[&str]) -> Run {
    let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
    let loaded = device.load(&Module::from_ptx(&module(bodies), "k.ptx").unwrap()).unwrap();
    let buffers = ["first", "second"].map(|label| device.alloc(64, label).unwrap());
    device.fill(buffers[1], 0, 64).unwrap();
    let args = buffers.map(Arg::from);
    let mut findings = Vec::new();
    for number in 0..bodies.len() {
        let launched = loaded.kernel(&format!("k{number}")).unwrap().launch(&LaunchConfig::default(), &args);
        findings.extend(findings_with_reads(&device, launched, &[]));
    }
    findings.extend(device.undefined(buffers[0], 64).unwrap());
    Run { device, buffers, findings }
}

/// Expects one finding.
#[track_caller]
fn finds(bodies: &[&str]) -> Fault {
    let Run { mut findings, .. } = run(bodies);
    assert_eq!(findings.len(), 1, "{bodies:?}: {findings:#?}");
    let finding = findings.remove(0);
    assert_eq!(finding.kind, FaultKind::UninitialisedRead);
    finding
}

#[track_caller]
fn passes(bodies: &[&str]) {
    let Run { findings, .. } = run(bodies);
    assert!(findings.is_empty(), "{bodies:?}: {findings:#?}");
}

/// Expects that `%r3`, which the body computes, has exactly these undefined bits: each bit that is set decides a branch, the
/// others do not.
#[track_caller]
fn undefined_bits(body: &str, expected: u32) {
    for bit in [0, 1, 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23, 24, 27, 28, 31] {
        let body = format!(
            "LOAD {body}\nand.b32 %r9, %r3, {};\nsetp.eq.u32 %p8, %r9, 0; @%p8 bra END;\nst.shared.u32 [tile], 1;\nEND: ret;",
            1u32 << bit
        );
        let found = run(&[&body]).findings.len();
        assert_eq!(found, (expected >> bit & 1) as usize, "bit {bit} of {expected:#x}: {body}");
    }
}

#[test]
fn what_decides_something_is_used() {
    for used in [
        "setp.lt.u32 %p1, %r1, 9; @%p1 bra END; st.shared.u32 [tile], 1; END: ret;",
        "setp.lt.u32 %p1, %r1, 9; @%p1 st.shared.u32 [tile], 1; ret;",
        "and.b32 %r1, %r1, 12; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], 1; ret;",
        "cvt.u64.u32 %rd3, %r1; add.u64 %rd3, %rd2, %rd3; ld.global.u32 %r2, [%rd3]; ret;",
        "red.global.add.u32 [%rd2], %r1; ret;",
        "st.shared.u32 [tile], 1; atom.shared.exch.b32 %r2, [tile], %r1; ret;",
        "mov.u32 %r2, 3; shfl.sync.idx.b32 %r3, %r2, %r1, 31, 1; ret;",
    ] {
        let finding = finds(&[&format!("LOAD\n{used}")]);
        assert!(finding.instruction.starts_with("ld.shared.u32"), "{finding}");
        let use_note = "thread (0, 0, 0) uses the value at k.ptx:14".to_owned();
        assert!(finding.notes.contains(&use_note), "{finding}");
    }
}

#[test]
fn what_is_only_copied_is_not_used() {
    // By a local and a shared copy, a packed half, a function's argument, and a result nobody reads.
    let through_memory =
        "st.shared.u32 [tile], %r1; ld.shared.u32 %r2, [tile]; st.local.u32 [mine], %r2; ld.local.u32 %r3, [mine];";
    let through_call = "{ .param .align 8 .b8 a[16]; .param .b64 b; mov.b64 %rd3, {%r1, %r1}; st.param.b64 [a], %rd3;\n\
                        st.param.b64 [a+8], %rd3; call (b), same, (a); ld.param.b64 %rd4, [b]; cvt.u32.u64 %r3, %rd4; }";
    let through_registers = "setp.ne.u32 %p2, %r0, %r0; call (%r3, %p3), copied, (%r1, %p2);";
    let register_to_memory = "call (%r3), from_memory, (%r1);";
    for copy in [through_memory, through_call, through_registers, register_to_memory] {
        passes(&[&format!("LOAD {copy} add.u32 %r4, %r3, 1; st.shared.u32 [tile+4], %r4; ret;")]);
        let used = format!("LOAD\n{copy}\nsetp.eq.u32 %p1, %r3, 4; @%p1 bra END; st.shared.u32 [tile], 1; END: ret;");
        let finding = finds(&[&used]);
        // The read that brought it, not the last one.
        assert!(finding.instruction.contains("[unset0]") && finding.count == 1, "{finding:?}");
    }
    // A predicate is followed through a call, too.
    let through_predicate = "mov.u32 %r0, 0; setp.ne.u32 %p2, %r1, 4; call (%r3, %p3), copied, (%r0, %p2);";
    passes(&[&format!("LOAD {through_predicate} ret;")]);
    passes(&[&format!(
        "LOAD {through_predicate} setp.eq.u32 %p1, %r3, 0; @%p1 bra END; st.shared.u32 [tile], 1; END: ret;"
    )]);
    finds(&[&format!("LOAD\n{through_predicate}\n@%p3 bra END; st.shared.u32 [tile], 1; END: ret;")]);
    // What a call left in its registers is not the next one's.
    let twice = "call (%r3, %p3), copied, (%r1, %p2); call (%r3, %p3), copied, (%r0, %p2);";
    passes(&[&format!(
        "LOAD mov.u32 %r0, 4; setp.ne.u32 %p2, %r0, 4; {twice} setp.eq.u32 %p1, %r3, 4; @%p1 bra END; st.shared.u32 [tile], 1; END: ret;"
    )]);
    // Overwritten, it is defined.
    passes(&["LOAD st.shared.u32 [tile], %r1; st.shared.u32 [tile], 7; ld.shared.u32 %r2, [tile];\n\
              setp.eq.u32 %p1, %r2, 4; @%p1 bra END; st.shared.u32 [tile], 1; END: ret;"]);
}

#[test]
fn the_host_reads_what_a_kernel_stored() {
    let finding = finds(&["LOAD\nadd.u32 %r2, %r1, 5; st.global.u32 [%rd1+8], %r2; ret;"]);
    assert!(finding.instruction.contains("[unset0]"), "{finding}");
    let read = finding.notes.iter().find(|note| note.contains("the host reads it")).unwrap();
    assert!(read.contains("8 bytes into `first`"), "{read}");

    let Run { device, buffers: [first, second], .. } =
        run(&["LOAD mov.u32 %r2, 7; st.global.v2.u32 [%rd1], {%r2, %r2};\n\
        st.global.u32 [%rd1+8], %r1; ret;"]);
    let mut bytes = [1; 12];
    // The bytes are copied nevertheless; those beside them are defined, and a copy on the device changes nothing.
    assert!(matches!(device.read(first, &mut bytes), Err(MemoryError::Undefined(findings)) if findings[0].count == 1));
    assert_eq!(bytes, [7, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(device.read(first, &mut bytes[..8]), Ok(()));
    device.copy(second, first.offset(4), 8).unwrap();
    assert_eq!(device.undefined(second, 4).unwrap(), []);
    assert_eq!(device.undefined(second, 64).unwrap().len(), 1);
    device.write(first, &[0; 12]).unwrap();
    assert_eq!(device.undefined(first, 64).unwrap(), []);
    // What no kernel stored to is not judged.
    assert_eq!(device.read(first.offset(32), &mut bytes), Ok(()));
}

#[test]
fn padding_is_no_value() {
    // A struct of 4 and 2 bytes, copied as 8.
    let fill = "st.shared.u32 [tile], 1; st.shared.u16 [tile+4], 2;";
    passes(&[&format!("{fill} ld.shared.u64 %rd3, [tile]; st.global.u64 [%rd1], %rd3; ret;")]);
    passes(&[&format!(
        "{fill} ld.shared.v4.u32 {{%r2, %r3, %r4, %r5}}, [tile]; st.global.v4.u32 [%rd1], {{%r2, %r3, %r4, %r5}}; ret;"
    )]);
    // A byte that is extended is no padding.
    finds(&["ld.shared.u8 %r1, [unset]; st.global.u32 [%rd1], %r1; ret;"]);
    finds(&["ld.shared.u8 %h1, [unset]; cvt.u32.u16 %r1, %h1; st.global.u32 [%rd1], %r1; ret;"]);
}

#[test]
fn a_later_launch_uses_what_an_earlier_one_stored() {
    let finding = finds(&[
        "LOAD st.global.v2.u32 [%rd1], {%r1, 3}; ret;",
        "ld.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra END; st.shared.u32 [tile], 1; END: ret;",
    ]);
    assert_eq!((finding.kernel.as_str(), finding.count), ("k0", 1), "{finding}");
}

#[test]
fn asynchronous_copies_take_padding_along() {
    let fill = "st.global.u32 [%rd1], 7; st.global.u32 [%rd1+8], 9;\n\
                cp.async.ca.shared.global [tile], [%rd1], 16; cp.async.wait_all;";
    let used = |at: u32| {
        format!(
            "{fill} ld.shared.u32 %r2, [tile+{at}]; setp.eq.u32 %p1, %r2, 4; @%p1 bra END; st.shared.u32 [tile], 1; END: ret;"
        )
    };
    passes(&[&used(0)]);
    passes(&[&used(8)]);
    let finding = finds(&[&used(4)]);
    assert!(finding.instruction.starts_with("cp.async"), "{finding}");
}

#[test]
fn bit_fields_are_defined_bit_by_bit() {
    // Three bits of a byte are set beside others that are not, as nvcc -G and clang -O0 do it.
    for (space, place) in [("shared", "tile"), ("local", "mine"), ("global", "%rd1")] {
        let insert = format!(
            "ld.{space}.u8 %r1, [{place}]; and.b32 %r2, %r1, -57; or.b32 %r2, %r2, 40; st.{space}.u8 [{place}], %r2;\n\
             ld.{space}.u8 %r4, [{place}];"
        );
        let ends = "@%p1 bra END; st.shared.u32 [tile+8], 1; END: ret;";
        passes(&[&format!("{insert} bfe.u32 %r3, %r4, 3, 3; setp.eq.u32 %p1, %r3, 5; {ends}")]);
        passes(&[&format!("{insert} shl.b32 %r3, %r4, 26; shr.s32 %r3, %r3, 29; setp.eq.s32 %p1, %r3, 5; {ends}")]);
        finds(&[&format!("{insert}\nbfe.u32 %r3, %r4, 2, 3; setp.eq.u32 %p1, %r3, 2; {ends}")]);
    }
}

#[test]
fn operations_say_which_bits_are_undefined() {
    for (body, expected) in [
        ("and.b32 %r3, %r1, 0xff00;", 0xff00),
        ("or.b32 %r3, %r1, 0xffff00ff;", 0xff00),
        ("xor.b32 %r3, %r1, 5;", u32::MAX),
        ("not.b32 %r2, %r1; and.b32 %r3, %r2, 0x10;", 0x10),
        ("mov.u32 %r2, 0xf0; mov.u32 %r4, 0xff; lop3.b32 %r3, %r1, %r2, %r4, 0x80;", 0xf0),
        ("shl.b32 %r3, %r1, 16;", 0xffff_0000),
        ("shr.u32 %r3, %r1, 24;", 0xff),
        ("and.b32 %r2, %r1, 0x80000000; shr.s32 %r3, %r2, 8;", 0xff80_0000),
        ("mov.u32 %r2, 1; shl.b32 %r3, %r2, %r1;", u32::MAX),
        ("and.b32 %r2, %r1, 0xf0; add.u32 %r3, %r2, 1;", 0xf0),
        ("and.b32 %r2, %r1, 0xf0; sub.u32 %r3, %r2, 1;", 0xffff_fff0),
        ("and.b32 %r2, %r1, 0x100; mul.lo.u32 %r3, %r2, 3;", 0xffff_ff00),
        ("prmt.b32 %r3, %r1, 0x12345678, 0x4047;", 0xff_0000),
        ("bfi.b32 %r3, %r1, -1, 8, 8;", 0xff00),
        ("mov.u32 %r2, 7; bfi.b32 %r3, %r2, %r1, 8, 8;", 0xffff_00ff),
        ("bfe.u32 %r3, %r1, 4, 8;", 0xff),
        ("brev.b32 %r2, %r1; and.b32 %r3, %r2, 3;", 3),
        ("mov.u32 %r2, 0; shf.l.wrap.b32 %r3, %r1, %r2, 8;", 0xff),
        ("cvt.u32.u8 %r3, %r1;", 0xff),
        ("cvt.s32.s8 %r3, %r1;", u32::MAX),
        ("cvt.u64.u32 %rd3, %r1; shl.b64 %rd3, %rd3, 8; cvt.u32.u64 %r3, %rd3;", 0xffff_ff00),
        ("mov.b32 {%h1, %h2}, %r1; mov.u16 %h3, 5; mov.b32 %r3, {%h3, %h2};", 0xffff_0000),
        ("setp.eq.u32 %p1, %r0, %r0; selp.u32 %r3, 5, %r1, %p1;", 0),
        ("setp.eq.u32 %p1, %r1, 4; selp.u32 %r3, 5, 7, %p1;", 2),
        ("setp.eq.u32 %p1, %r1, 4; setp.ne.u32 %p2, %r0, %r0; and.pred %p3, %p1, %p2; selp.u32 %r3, 0, -1, %p3;", 0),
        ("or.b32 %r2, %r1, 8; setp.eq.u32 %p1, %r2, 4; selp.u32 %r3, 0, -1, %p1;", 0),
        ("and.b32 %r2, %r1, 15; setp.lt.u32 %p1, %r2, 16; selp.u32 %r3, 0, -1, %p1;", 0),
        ("and.b32 %r2, %r1, 15; setp.lt.s32 %p1, %r2, 15; selp.u32 %r3, 0, -1, %p1;", u32::MAX),
        ("mov.b32 %f1, %r1; add.f32 %f2, %f1, 0f3F800000; mov.b32 %r3, %f2;", u32::MAX),
        ("add.cc.u32 %r2, %r1, 1; addc.u32 %r3, %r0, 0;", u32::MAX),
        ("mov.u32 %r3, %r1; mov.u32 %r3, 5;", 0),
    ] {
        undefined_bits(&format!("mov.u32 %r0, 0; {body}"), expected);
    }
}

/// The findings of a warp of 32 threads and of the host that reads rows of 32 bytes of what it stored, for each row. `%r0` is the
/// lane, `%r1` the address of `unset`, `%r2` that of `tile`, both shared; `%rd1` the buffer.
fn of_warp(body: &str) -> (Vec<Fault>, Vec<Vec<Fault>>) {
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .f32 %f<40>; .reg .pred %p<9>;\n\
         .shared .align 16 .b8 unset[1024]; .shared .align 16 .b8 tile[1024];\n\
         ld.param.u64 %rd1, [out]; mov.u32 %r0, %laneid; mov.u32 %r1, unset; mov.u32 %r2, tile;\n{body}\nret;\n}}"
    );
    let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
    let kernel = device.load(&Module::from_ptx(&text, "k.ptx").unwrap()).unwrap().kernel("k").unwrap();
    let out = device.alloc(1024, "out").unwrap();
    let config = LaunchConfig { block: [32, 1, 1], ..Default::default() };
    let launched = findings_with_reads(&device, kernel.launch(&config, &[out.into()]), &[]);
    (launched, (0..32).map(|row| device.undefined(out.offset(32 * row), 32).unwrap()).collect())
}

/// Rows of 32 bytes in which the host finds something undefined.
#[track_caller]
fn undefined_rows(body: &str) -> Vec<usize> {
    let (launched, rows) = of_warp(body);
    assert!(launched.is_empty(), "{body}: {launched:#?}");
    for finding in rows.iter().flatten() {
        assert!(finding.instruction.contains("[unset"), "{finding}");
    }
    (0..32).filter(|row| !rows[*row].is_empty()).collect()
}

#[test]
fn a_product_is_undefined_where_its_factors_are() {
    // Lane l holds elements 2·(l % 4) and the next of rows l / 4 and l / 4 + 8 of D, stored as [16, 8].
    let product = |undefined: &str| {
        format!(
            "mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0; mov.b32 %r14, 0; mov.b32 %r15, 0;
             mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
             {undefined}
             mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f4, %f5, %f6, %f7}}, {{%r10, %r11, %r12, %r13}},
             {{%r14, %r15}}, {{%f0, %f1, %f2, %f3}};
             shl.b32 %r3, %r0, 3; cvt.u64.u32 %rd2, %r3; add.u64 %rd2, %rd1, %rd2;
             st.global.f32 [%rd2], %f4; st.global.f32 [%rd2+4], %f5; st.global.f32 [%rd2+256], %f6; st.global.f32 [%rd2+260], %f7;"
        )
    };
    assert!(undefined_rows(&product("")).is_empty());
    // Registers 0 and 1 of A in lane 5: rows 1 and 9.
    assert_eq!(undefined_rows(&product("setp.eq.u32 %p1, %r0, 5; @%p1 ld.shared.b32 %r10, [unset];")), [1]);
    assert_eq!(undefined_rows(&product("setp.eq.u32 %p1, %r0, 5; @%p1 ld.shared.b32 %r11, [unset];")), [9]);
    // B in lane 9: column 2 of all rows.
    let of_b = product("setp.eq.u32 %p1, %r0, 9; @%p1 ld.shared.b32 %r15, [unset];");
    assert_eq!(undefined_rows(&of_b), (0..16).collect::<Vec<_>>());
    let only = |column: u32| {
        format!(
            "{of_b} setp.eq.u32 %p2, %r0, {column}; @!%p2 bra END; setp.eq.f32 %p3, %f4, 0f00000000; @%p3 bra END; st.shared.b32 [tile], 1; END:"
        )
    };
    assert_eq!(of_warp(&only(1)).0.len(), 1);
    assert_eq!(of_warp(&only(2)).0.len(), 0);
    // C adds its own only.
    assert_eq!(undefined_rows(&product("setp.eq.u32 %p1, %r0, 13; @%p1 ld.shared.f32 %f2, [unset];")), [11]);
    // Each sum names the read that it is from.
    let (_, rows) = of_warp(&product(
        "setp.eq.u32 %p1, %r0, 5; @%p1 ld.shared.b32 %r10, [unset]; setp.eq.u32 %p1, %r0, 8; @%p1 ld.shared.b32 %r10, [unset+8];",
    ));
    assert!(rows[1].len() == 1 && rows[1][0].instruction.contains("[unset]"), "{rows:#?}");
    assert!(rows[2].len() == 1 && rows[2][0].instruction.contains("[unset+8]"), "{rows:#?}");
}

#[test]
fn matrices_are_copied_bit_by_bit() {
    // Lane 5 has row 1, columns 2 and 3; its column 3 is undefined.
    let start =
        "mov.b32 %r10, 0; setp.eq.u32 %p1, %r0, 5; @%p1 ld.shared.b16 %r10, [unset]; @%p1 shl.b32 %r10, %r10, 16;
        shl.b32 %r3, %r0, 4; add.u32 %r3, %r2, %r3;";
    let stores = |form: &str, back: &str| {
        format!(
            "{start} stmatrix.sync.aligned.m8n8.x1{form}.shared.b16 [%r3], {{%r10}}; bar.warp.sync -1; {back}
             shl.b32 %r4, %r0, 5; cvt.u64.u32 %rd2, %r4; add.u64 %rd2, %rd1, %rd2; st.global.b32 [%rd2], %r11;"
        )
    };
    let load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r11}, [%r3];";
    assert_eq!(
        undefined_rows(&stores("", load).replace("st.global.b32", "shr.u32 %r11, %r11, 16; st.global.b32")),
        [5]
    );
    // Of the register only that half.
    assert!(
        undefined_rows(&stores("", load).replace("st.global.b32", "and.b32 %r11, %r11, 0xffff; st.global.b32"))
            .is_empty()
    );
    // Transposed: row 3, column 1.
    let high = |body: String| body.replace("st.global.b32", "shr.u32 %r11, %r11, 16; st.global.b32");
    assert_eq!(undefined_rows(&high(stores(".trans", load))), [12]);
    assert_eq!(undefined_rows(&high(stores(".trans", &load.replace("x1", "x1.trans")))), [5]);
    let moved = "mov.u32 %r11, %r10; movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10;";
    assert_eq!(undefined_rows(&high(stores("", moved))), [12]);
    // Row 5 of A was never written; neither A's load nor the product uses it.
    let wmma = "shl.b32 %r3, %r0, 4; add.u32 %r3, %r2, %r3; setp.eq.u32 %p1, %r0, 10;
        mov.b32 %r10, 0; @!%p1 st.shared.v4.b32 [%r3], {%r10, %r10, %r10, %r10};
        @%p1 ld.shared.b32 %r11, [unset]; @%p1 st.shared.v4.b32 [%r3], {%r10, %r11, %r10, %r10}; bar.warp.sync -1;
        wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [tile];
        mov.b32 %r20, 0; mov.f32 %f0, 0f00000000;
        wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8},
        {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, {%r20, %r20, %r20, %r20, %r20, %r20, %r20, %r20},
        {%f0, %f0, %f0, %f0, %f0, %f0, %f0, %f0};
        wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8};";
    assert_eq!(undefined_rows(wmma), [10, 11]);
}
