//! Memory that the host and kernels reach at one address.

use ptx_sim::{Arg, Device, DeviceConfig, DevicePtr, FaultKind, LaunchConfig, LaunchError, MemoryError, Module};

/// Adds a managed variable, which begins at 5, to each of `n` values.
const PTX: &str = "
    .version 8.0
    .target sm_80
    .address_size 64
    .visible .global .attribute(.managed) .align 4 .u32 step = 5;
    .visible .entry add(.param .u64 values, .param .u32 n) {
        .reg .pred %p;
        .reg .b32 %r<4>;
        .reg .b64 %rd<4>;
        mov.u32 %r0, %tid.x;
        ld.param.u32 %r1, [n];
        setp.ge.u32 %p, %r0, %r1;
        @%p ret;
        ld.param.u64 %rd0, [values];
        mul.wide.u32 %rd1, %r0, 4;
        add.s64 %rd0, %rd0, %rd1;
        ld.global.u32 %r2, [%rd0];
        ld.global.u32 %r3, [step];
        add.u32 %r2, %r2, %r3;
        st.global.u32 [%rd0], %r2;
        ret;
    }";

/// Adds to the `n` values at an address, in a launch of 32 threads.
fn add(device: &Device, values: u64, n: u32) -> Result<(), LaunchError> {
    let module = device.load(&Module::from_ptx(PTX, "add.ptx").unwrap()).unwrap();
    let step = module.global("step").unwrap().0.0 as *mut u32;
    // SAFETY: a managed variable of the loaded module.
    unsafe { *step += 1 };
    let config = LaunchConfig { block: [32, 1, 1], ..Default::default() };
    module.kernel("add").unwrap().launch(&config, &[Arg::from(values), Arg::from(n)]).map(|_| ())
}

#[test]
fn the_host_and_kernels_see_one_memory() {
    for sanitize in [false, true] {
        let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
        let shared = device.alloc_shared(19 * 4, "shared").unwrap();
        assert_eq!(shared.0 % 256, 0);
        // SAFETY: the allocation has as many bytes.
        let values = unsafe { std::slice::from_raw_parts_mut(shared.0 as *mut u32, 19) };
        values.copy_from_slice(&[7; 19]);
        add(&device, shared.0, 19).unwrap();
        assert_eq!(values, [13; 19]);
        let mut read = [0; 4];
        device.read(shared.offset(72), &mut read).unwrap();
        assert_eq!(read, [13, 0, 0, 0]);
        device.free(shared).unwrap();
        assert!(matches!(device.free(shared), Err(MemoryError::InvalidPointer { .. })));
    }
}

#[test]
fn memory_of_the_host_is_used_where_it_lies() {
    for sanitize in [false, true] {
        let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
        let mut memory = vec![1_u32; 24];
        // Not at a multiple of 16, in one of the four positions of a word.
        let values = memory[1..].as_mut_ptr();
        // SAFETY: the vector outlives the use of its memory, which an allocator aligns to 16 bytes or begins in a block of its own.
        let start = unsafe { device.adopt(values.cast(), 23 * 4, "values") }.unwrap();
        assert_eq!(start.0, values as u64 / 16 * 16);
        add(&device, values as u64, 23).unwrap();
        assert!(memory[1..].iter().all(|value| *value == 7) && memory[0] == 1, "{memory:?}");
        let past = add(&device, values as u64, 24).unwrap_err();
        let fault = match past {
            LaunchError::Fault(fault) => *fault,
            LaunchError::Findings(findings) => findings[0].clone(),
            other => panic!("{other}"),
        };
        assert_eq!((fault.kind, fault.thread), (FaultKind::OutOfBounds, [23, 0, 0]));
        device.free(start).unwrap();
        assert!(device.allocation(DevicePtr(values as u64)).is_none());
        // The address is the host's, and may be adopted again.
        // SAFETY: as above.
        let again = unsafe { device.adopt(values.cast(), 23 * 4, "values") }.unwrap();
        assert_eq!(again, start);
    }
}

#[test]
fn allocations_are_shown_side_by_side_at_reserved_addresses() {
    for sanitize in [false, true] {
        let device = Device::new(DeviceConfig { sanitize, total_memory: 64, ..Default::default() });
        let parts = [(); 2].map(|()| device.alloc(16, "part").unwrap());
        let place = device.reserve(48, 4096);
        assert!(place.0.is_multiple_of(4096) && device.allocation(place).is_none());
        device.map(place, 16, parts[0], "first").unwrap();
        device.map(place.offset(16), 16, parts[1], "second").unwrap();
        assert!(matches!(device.map(place.offset(12), 16, parts[1], "both"), Err(MemoryError::NotAStart { .. })));
        assert!(matches!(device.map(place.offset(32), 17, parts[1], "more"), Err(MemoryError::OutOfBounds { .. })));
        assert_eq!((device.memory().in_use, device.memory().allocations), (32, 4));
        add(&device, place.0, 8).unwrap();
        assert!(matches!(add(&device, place.0, 9), Err(LaunchError::Fault(_) | LaunchError::Findings(_))));

        // The same bytes at another place, after the end of the allocation too.
        device.free(place.offset(16)).unwrap();
        device.map(place, 16, parts[1], "taken").unwrap_err();
        device.free(place).unwrap();
        device.map(place, 16, parts[1], "second").unwrap();
        device.free(parts[1]).unwrap();
        let mut read = [0; 16];
        device.read(place, &mut read).unwrap();
        assert_ne!(read[..4], [0; 4]);
        assert_eq!((device.memory().in_use, device.memory().allocations), (16, 2));
    }
}
