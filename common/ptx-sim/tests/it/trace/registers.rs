//! Tests of the values of registers in a trace.

use ptx_sim::{Device, LaunchConfig, Module, Observe, Space, Trace, TraceRequest};

use super::{observe, trace};

/// Results of each step in a register: the lanes, the type and their bits.
fn writes_of<'t>(trace: &'t Trace, name: &str) -> Vec<(usize, u32, &'static str, &'t [u64])> {
    let register = trace.registers.iter().position(|register| register.name == name);
    let register = register.unwrap_or_else(|| panic!("there is no {name} in {:?}", trace.registers)) as u32;
    let of_it = trace.writes.iter().filter(|write| write.register == register);
    of_it.map(|write| (write.step, write.lanes, write.ty, &*write.bits)).collect()
}

#[test]
fn a_trace_has_what_instructions_leave_in_registers() {
    let request = || TraceRequest { registers: true, ..TraceRequest::default() };
    let copies = observe("copies", [32, 1, 1], 2, &[20], request()).unwrap();
    assert_eq!(copies.registers_until, copies.steps.len());
    let lanes: Vec<u64> = (0..32).collect();
    let [(step, mask, ty, bits)] = writes_of(&copies, "%r5")[..] else { panic!("%r5 is written once") };
    assert_eq!((mask, ty, bits), (u32::MAX, "u32", &*lanes));
    assert!(copies.sites[copies.steps[step].site as usize].instruction.contains("%tid.x"));
    // i ≥ 20: a bit for each lane, and then only the others load.
    let past: Vec<u64> = (0..32).map(|lane| u64::from(lane >= 20)).collect();
    let [(_, mask, ty, bits)] = writes_of(&copies, "%p1")[..] else { panic!("%p1 is written once") };
    assert_eq!((mask, ty, bits), (u32::MAX, "pred", &*past));
    let loaded: Vec<u64> = (0..20).map(|lane| u64::from((lane as f32).to_bits())).collect();
    let [(step, mask, ty, bits)] = writes_of(&copies, "%f1")[..] else { panic!("%f1 is written once") };
    assert_eq!((mask, ty, bits), ((1 << 20) - 1, "f32", &*loaded));
    assert_eq!(copies.steps[step].active, mask);
    // Addresses have 64 bits.
    let [(.., bits)] = writes_of(&copies, "%rd5")[..] else { panic!("%rd5 is written once") };
    assert_eq!(copies.locate(Space::Global, bits[3]), "in + 12");

    // A loop writes a register again and again: value = 2 · value + 3, four times from lane + 1 on.
    let doubles = observe("doubles", [32, 1, 1], 1, &[3], request()).unwrap();
    let of_lane = |lane: usize| writes_of(&doubles, "%r33").into_iter().map(move |(.., bits)| bits[lane]);
    assert!(of_lane(5).eq([6, 15, 33, 69]), "{:?}", of_lane(5).collect::<Vec<_>>());

    // Nothing, unless it is asked for; and of steps that are not recorded, nothing either.
    let plain = trace("copies", [32, 1, 1], 2, &[32]);
    assert_eq!((plain.writes.len(), plain.registers.len(), plain.registers_until), (0, 0, 0));
    let cut = observe("rounds", [64, 1, 1], 1, &[2], TraceRequest { max_steps: 10, ..request() }).unwrap();
    assert_eq!(cut.registers_until, 10);
    assert!(cut.writes.iter().all(|write| write.step < 10) && cut.writes.len() > 4, "{:?}", cut.writes);
}

/// The results of a product appear when it has been waited for, and a barrier's when it releases its lanes.
#[test]
fn what_comes_later_is_recorded_when_it_is_there() {
    let run = |ptx: &str, threads: u32| {
        let device = Device::new(Default::default());
        let module = device.load(&Module::from_ptx(ptx, "later.ptx").unwrap()).unwrap();
        let config = LaunchConfig { block: [threads, 1, 1], ..Default::default() };
        let request = TraceRequest { registers: true, ..TraceRequest::default() };
        let observe = Observe { trace: Some(request), ..Default::default() };
        module.kernel("k").unwrap().observe(&config, &[], &observe).unwrap().trace.unwrap()
    };
    let counted = run(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<3>;\n.reg .pred %p<2>;\n\
         mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 40;\nbarrier.red.popc.u32 %r2, 0, %p1;\nadd.u32 %r2, %r2, 1;\nret;\n}\n",
        64,
    );
    let totals: Vec<u64> = writes_of(&counted, "%r2").into_iter().map(|(.., bits)| bits[31]).collect();
    assert_eq!(totals.iter().filter(|&&total| total == 40).count(), 2, "{totals:?}");
    assert_eq!(totals.iter().filter(|&&total| total == 41).count(), 2, "{totals:?}");

    // 1 · 1, sixteen times: all of shared memory holds ones.
    let registers: Vec<String> = (0..4).map(|at| format!("%f{at}")).collect();
    let product = run(
        &format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{\n.reg .b32 %r<3>;\n.reg .f32 %f<4>;\n\
             .reg .b64 %rd<4>;\n.reg .pred %p<2>;\n.shared .align 1024 .b8 tile[8192];\nmov.u64 %rd1, tile;\nmov.u32 %r1, %tid.x;\n\
             mul.wide.u32 %rd2, %r1, 64;\nadd.u64 %rd2, %rd1, %rd2;\nmov.b32 %r2, 0x3c003c00;\n{}\
             fence.proxy.async;\nbar.sync 0;\nshr.u64 %rd1, %rd1, 4;\nor.b64 %rd1, %rd1, 0x1000080000;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{}}}, %rd1, %rd1, 0, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\n\
             wgmma.wait_group.sync.aligned 0;\nadd.f32 %f0, %f0, %f0;\nret;\n}}\n",
            (0..16).map(|word| format!("st.shared.b32 [%rd2+{}], %r2;\n", 4 * word)).collect::<String>(),
            registers.join(", "),
        ),
        128,
    );
    let of = |name: &str| writes_of(&product, name);
    for (step, _, ty, bits) in of("%f1") {
        let instruction = &product.sites[product.steps[step].site as usize].instruction;
        assert!(instruction.starts_with("wgmma.wait_group"), "{instruction}");
        assert_eq!((ty, bits), ("f32", &[u64::from(16f32.to_bits()); 32][..]));
    }
    assert_eq!((of("%f1").len(), of("%f0").len()), (4, 8));
    assert_eq!(of("%f0").iter().filter(|(.., bits)| bits[0] == u64::from(32f32.to_bits())).count(), 4);
}
