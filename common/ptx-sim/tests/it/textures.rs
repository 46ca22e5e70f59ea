//! Textures and surfaces: reads against a reference of its own, writes, queries, and invalid handles.

use ptx_sim::{
    AddressMode, Arg, ChannelKind, Device, DeviceConfig, Extent, Fault, FaultKind, Filter, LaunchConfig, LaunchError,
    Module, ObjectError, ObjectHandle, Observe, Sampling, SurfaceDescriptor, TexelFormat, TextureDescriptor,
};

const FLOAT: TexelFormat = TexelFormat { channels: 1, bits: 32, kind: ChannelKind::Float };

/// One warp that runs `body` with its lane in `%r0`, the handle in `%rd1`, `in` and `out` in `%rd2` and `%rd3`.
fn launch(
    device: &Device,
    body: &str,
    handle: u64,
    input: &[u32],
    words_out: usize,
    lanes: u32,
) -> Result<Vec<u32>, Box<Fault>> {
    let ptx = format!(
        ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 h, .param .u64 a, .param .u64 b) {{
        .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<9>;
        mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [h]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b];
        {body}
        ret; }}"
    );
    let module = device.load(&Module::from_ptx(&ptx, "t.ptx").expect("PTX")).expect("a module");
    let bytes: Vec<u8> = input.iter().flat_map(|word| word.to_le_bytes()).collect();
    let from = device.alloc(bytes.len().max(4) as u64, "in").expect("memory");
    device.write(from, &bytes).expect("in bounds");
    let to = device.alloc(words_out as u64 * 4, "out").expect("memory");
    device.fill(to, 0xaa, words_out as u64 * 4).expect("in bounds");
    let config = LaunchConfig { block: [lanes, 1, 1], ..Default::default() };
    let kernel = module.kernel("k").expect("a kernel that runs");
    let launched = kernel.launch(&config, &[Arg::from(handle), Arg::from(from), Arg::from(to)]);
    let mut result = vec![0; words_out * 4];
    device.read(to, &mut result).expect("in bounds");
    match launched {
        Ok(_) => Ok(result.chunks(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()),
        Err(LaunchError::Fault(fault)) => Err(fault),
        Err(LaunchError::Findings(mut findings)) => Err(Box::new(findings.remove(0))),
        Err(other) => panic!("{other}"),
    }
}

/// `tex` at each lane's coordinates from `in`, its four results to `out`.
fn fetch(device: &Device, opcode: &str, handle: ObjectHandle, per_lane: usize, input: &[u32]) -> Vec<[u32; 4]> {
    let loads: String = (0..per_lane).map(|at| format!("ld.global.b32 %r{}, [%rd4+{}];\n", at + 10, at * 4)).collect();
    let moves: String = (0..per_lane).map(|at| format!("mov.b32 %f{0}, %r{0};\n", at + 10)).collect();
    let integer = opcode.ends_with(".s32");
    let layered = [".a1d", ".a2d", ".acube"].iter().any(|geometry| opcode.contains(geometry));
    let mut names: Vec<String> = (0..per_lane)
        .map(|at| format!("%{}{}", if integer || layered && at == 0 { "r" } else { "f" }, at + 10))
        .collect();
    if per_lane == 3 {
        names.push(names[2].clone());
    }
    let extra = match opcode {
        _ if opcode.contains(".level") => ", %f10",
        _ if opcode.contains(".grad") => ", {%f10, %f11}, {%f10, %f11}",
        _ => "",
    };
    let body = format!(
        "mad.wide.u32 %rd4, %r0, {}, %rd2; mad.wide.u32 %rd5, %r0, 16, %rd3; {loads} {moves}
        {opcode} {{%r1, %r2, %r3, %r4}}, [%rd1, {{{}}}]{extra};
        st.global.v4.b32 [%rd5], {{%r1, %r2, %r3, %r4}};",
        per_lane * 4,
        names.join(", ")
    );
    let lanes = input.len() / per_lane;
    let words = launch(device, &body, handle.0, input, lanes * 4, lanes as u32).expect("no fault");
    words.chunks(4).map(|texel| [texel[0], texel[1], texel[2], texel[3]]).collect()
}

fn texture(device: &Device, extent: Extent, format: TexelFormat, sampling: Sampling, data: &[u8]) -> ObjectHandle {
    let texture = TextureDescriptor { extent, format, sampling, label: "photo".into() };
    device.create_texture(&texture, data).expect("a texture")
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Deterministic, well spread, in [0, 1).
fn noise(at: usize) -> f32 {
    ((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1 << 24) as f32
}

/// A texel of one dimension by the Programming Guide's appendix: `None` is the border.
fn wrapped(mode: AddressMode, normalised: bool, at: i64, size: i64) -> Option<i64> {
    match (mode, normalised) {
        (AddressMode::Border, _) => (at >= 0 && at < size).then_some(at),
        (AddressMode::Wrap, true) => Some(((at % size) + size) % size),
        (AddressMode::Mirror, true) => {
            // Whole turns are mirrored where their number is odd.
            let turn = (at as f64 / size as f64).floor() as i64;
            let within = at - turn * size;
            Some(if turn % 2 == 0 { within } else { size - 1 - within })
        }
        _ => Some(if at < 0 {
            0
        } else if at >= size {
            size - 1
        } else {
            at
        }),
    }
}

/// tex(x, y) in f64: weights have 8 bits of fraction.
fn reference(texels: &[f32], size: [i64; 2], sampling: &Sampling, x: f32, y: f32) -> f64 {
    let scale =
        |at: f32, size: i64| if sampling.normalised_coordinates { f64::from(at) * size as f64 } else { f64::from(at) };
    let texel = |i: i64, j: i64| {
        let i = wrapped(sampling.address[0], sampling.normalised_coordinates, i, size[0]);
        let j = wrapped(sampling.address[1], sampling.normalised_coordinates, j, size[1]);
        match (i, j) {
            (Some(i), Some(j)) => f64::from(texels[(j * size[0] + i) as usize]),
            _ => f64::from(sampling.border[0]),
        }
    };
    let (x, y) = (scale(x, size[0]), scale(y, size[1]));
    if sampling.filter == Filter::Point {
        return texel(x.floor() as i64, y.floor() as i64);
    }
    let (bx, by) = (x - 0.5, y - 0.5);
    let (i, j) = (bx.floor(), by.floor());
    let weight = |part: f64| (part * 256.0 + 0.5).floor() / 256.0;
    let (a, b) = (weight(bx - i), weight(by - j));
    let (i, j) = (i as i64, j as i64);
    (1.0 - a) * (1.0 - b) * texel(i, j)
        + a * (1.0 - b) * texel(i + 1, j)
        + (1.0 - a) * b * texel(i, j + 1)
        + a * b * texel(i + 1, j + 1)
}

#[test]
fn every_filter_and_address_mode_agrees_with_the_reference() {
    use AddressMode::*;
    let device = Device::new(DeviceConfig::default());
    let (width, height) = (7, 5);
    let texels: Vec<f32> = (0..width * height).map(noise).collect();
    for filter in [Filter::Point, Filter::Linear] {
        for (x_mode, y_mode) in [(Wrap, Mirror), (Mirror, Wrap), (Clamp, Border), (Border, Clamp), (Border, Border)] {
            for normalised_coordinates in [false, true] {
                let address = [x_mode, y_mode, Clamp];
                let sampling = Sampling {
                    filter,
                    address,
                    normalised_coordinates,
                    border: [0.25, 0.0, 0.0, 0.0],
                    ..Default::default()
                };
                let extent = Extent::TwoD(width as u32, height as u32);
                let handle = texture(&device, extent, FLOAT, sampling, &bytes_of(&texels));
                let scale = if normalised_coordinates { 4.0 } else { 25.0 };
                let places: Vec<f32> = (0..64).map(|at| (noise(at + 1000) - 0.5) * scale).collect();
                let input: Vec<u32> = places.iter().map(|at| at.to_bits()).collect();
                for opcode in ["tex.2d.v4.f32.f32", "tex.level.2d.v4.f32.f32", "tex.grad.2d.v4.f32.f32"] {
                    // The destinations are words, whatever they are read as.
                    let found = fetch(&device, &opcode.replace("v4.f32", "v4.u32"), handle, 2, &input);
                    for (place, texel) in places.chunks(2).zip(found) {
                        let expected = reference(&texels, [width as i64, height as i64], &sampling, place[0], place[1]);
                        let value = f32::from_bits(texel[0]);
                        // Four products and three sums in f64, and one rounding to f32.
                        assert!(
                            (f64::from(value) - expected).abs() <= expected.abs() * 2f64.powi(-24) + 1e-15,
                            "{sampling:?} {place:?}: {value}, not {expected}"
                        );
                        assert_eq!(texel[1..], [0; 3]); // as on an H200
                    }
                }
                device.destroy_object(handle).expect("a live texture");
            }
        }
    }
    assert!(device.leaks().iter().all(|leak| leak.label != "photo"));
}

#[test]
fn three_dimensions_layers_and_gathers_read_their_texels() {
    let device = Device::new(DeviceConfig::default());
    let texels: Vec<f32> = (0..4 * 3 * 2).map(|at| at as f32).collect();
    let data = bytes_of(&texels);
    let float = |value: f32| value.to_bits();
    let linear = Sampling { filter: Filter::Linear, ..Default::default() };

    // At (2, 1.5, 1): halfway between texels 1 and 2 of row 1, of both slices.
    let volume = texture(&device, Extent::ThreeD(4, 3, 2), FLOAT, linear, &data);
    let found = fetch(&device, "tex.3d.v4.u32.f32", volume, 3, &[float(2.0), float(1.5), float(1.0)]);
    assert_eq!(f32::from_bits(found[0][0]), (5.0 + 6.0 + 17.0 + 18.0) / 4.0);

    let layers = texture(&device, Extent::TwoDLayered(4, 3, 2), FLOAT, Sampling::default(), &data);
    let found =
        fetch(&device, "tex.a2d.v4.u32.f32", layers, 3, &[1, float(3.5), float(2.5), 9, float(0.0), float(0.0)]);
    assert_eq!([found[0][0], found[1][0]].map(f32::from_bits), [23.0, 12.0]); // there is no layer 9

    let rows = texture(&device, Extent::OneDLayered(4, 6), FLOAT, linear, &data);
    let found = fetch(&device, "tex.a1d.v4.u32.f32", rows, 2, &[3, float(1.75)]);
    assert_eq!(f32::from_bits(found[0][0]), 12.0 * 0.0 + 12.0 + 1.25);

    let photo = texture(&device, Extent::TwoD(4, 6), FLOAT, Sampling::default(), &data);
    let found = fetch(&device, "tld4.r.2d.v4.u32.f32", photo, 2, &[float(2.0), float(3.0)]);
    // Around (2, 3): columns 1 and 2 of rows 2 and 3, from below left.
    assert_eq!(found[0].map(f32::from_bits), [13.0, 14.0, 10.0, 9.0]);
    let found = fetch(&device, "tld4.a.2d.v4.u32.f32", photo, 2, &[float(2.0), float(3.0)]);
    assert_eq!(found[0], [0; 4]); // there is no fourth channel

    let found = fetch(&device, "tex.2d.v4.u32.s32", photo, 2, &[3, 1, -5i32 as u32, 100]);
    assert_eq!([found[0][0], found[1][0]].map(f32::from_bits), [7.0, 0.0]); // outside, whatever the mode: as on an H200
}

#[test]
fn linear_memory_is_zero_past_its_end() {
    let device = Device::new(DeviceConfig::default());
    let buffer = device.alloc(64, "numbers").expect("memory");
    device.write(buffer, &(0..16u32).flat_map(|at| (at * 3).to_le_bytes()).collect::<Vec<_>>()).expect("in bounds");
    let format = TexelFormat { channels: 2, bits: 32, kind: ChannelKind::Unsigned };
    let pairs = |extent| TextureDescriptor { extent, format, sampling: Sampling::default(), label: "pairs".into() };
    let handle = device.bind_texture(&pairs(Extent::Linear(8)), buffer).expect("a texture");
    let found = fetch(&device, "tex.1d.v4.u32.s32", handle, 1, &[0, 7, 8, -1i32 as u32, i32::MIN as u32]);
    assert_eq!(found, [[0, 3, 0, 0], [42, 45, 0, 0], [0; 4], [0; 4], [0; 4]]);
    assert!(matches!(device.bind_texture(&pairs(Extent::Linear(9)), buffer), Err(ObjectError::Memory(_))));
    assert!(matches!(
        device.bind_texture(&pairs(Extent::Linear(1)), buffer.offset(8)),
        Err(ObjectError::Invalid { .. })
    ));
    assert!(matches!(device.bind_texture(&pairs(Extent::OneD(1)), buffer), Err(ObjectError::Invalid { .. })));
    // The buffer outlives the texture, and not the other way round.
    device.free(buffer).expect("a buffer");
    let fault =
        launch(&device, "mov.u32 %r5, 0; tex.1d.v4.u32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5}];", handle.0, &[], 1, 1);
    assert_eq!(fault.expect_err("freed memory").kind, FaultKind::UseAfterFree);
}

#[test]
fn rows_of_memory_lie_a_pitch_apart() {
    let device = Device::new(DeviceConfig::default());
    // Three rows of three floats, in steps of 48 bytes; what lies between is no texel.
    let bytes: Vec<u8> = (0..27u32).flat_map(|at| (at as f32).to_le_bytes()).collect();
    let buffer = device.alloc(27 * 4, "rows").expect("memory");
    device.write(buffer, &bytes).expect("in bounds");
    let (format, sampling) = (FLOAT, Sampling { filter: Filter::Linear, ..Default::default() });
    let rows = |extent| TextureDescriptor { extent, format, sampling, label: "rows".into() };
    let handle = device.bind_pitched_texture(&rows(Extent::TwoD(3, 3)), buffer, 48).expect("a texture");
    assert_eq!(device.object_memory(handle).expect("a texture"), (buffer, 48));
    let float = f32::to_bits;
    let at = [float(0.5), float(0.5), float(2.5), float(2.5), float(2.0), float(1.0)];
    let found = fetch(&device, "tex.2d.v4.f32.f32", handle, 2, &at);
    assert_eq!([0, 1, 2].map(|at: usize| f32::from_bits(found[at][0])), [0.0, 26.0, 7.5]);
    for (extent, pitch) in [(Extent::TwoD(13, 1), 48), (Extent::TwoD(3, 3), 40), (Extent::OneD(3), 48)] {
        let refused = device.bind_pitched_texture(&rows(extent), buffer, pitch);
        assert!(matches!(refused, Err(ObjectError::Invalid { .. })), "{extent:?}");
    }
    let beyond = device.bind_pitched_texture(&rows(Extent::TwoD(4, 3)), buffer, 48);
    assert!(matches!(beyond, Err(ObjectError::Memory(_))));
}

#[test]
fn every_format_is_decoded() {
    let device = Device::new(DeviceConfig::default());
    let normalised = Sampling { normalised_float: true, ..Default::default() };
    let raw = Sampling::default();
    let (float, signed, unsigned) = (ChannelKind::Float, ChannelKind::Signed, ChannelKind::Unsigned);
    let bits = |values: [f32; 4]| values.map(f32::to_bits);
    for (channels, width, kind, sampling, data, expected) in [
        (4, 8, unsigned, raw, &[1u8, 2, 128, 255][..], [1, 2, 128, 255]),
        (4, 8, signed, raw, &[1, 2, 128, 255], [1, 2, -128i32 as u32, -1i32 as u32]),
        (4, 8, unsigned, normalised, &[0, 51, 102, 255], bits([0.0, 0.2, 0.4, 1.0])),
        (4, 8, signed, normalised, &[127, 128, 129, 0], bits([1.0, -1.0, -1.0, 0.0])),
        (2, 16, unsigned, raw, &[1, 0, 0, 0x80], [1, 0x8000, 0, 0]),
        (1, 16, signed, raw, &[0, 0x80], [-32768i32 as u32, 0, 0, 0]),
        (1, 16, unsigned, normalised, &[255, 255], bits([1.0, 0.0, 0.0, 0.0])),
        (2, 16, signed, normalised, &[0, 0x80, 255, 127], bits([-1.0, 1.0, 0.0, 0.0])),
        (2, 16, float, raw, &[0, 0x3c, 0x01, 0x80], bits([1.0, -(2f32.powi(-24)), 0.0, 0.0])),
        (1, 32, signed, raw, &[255; 4], [u32::MAX, 0, 0, 0]),
        (2, 32, float, raw, &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0], bits([1.0, -2.0, 0.0, 0.0])),
    ] {
        let format = TexelFormat { channels, bits: width, kind };
        let handle = texture(&device, Extent::OneD(1), format, sampling, data);
        assert_eq!(
            fetch(&device, "tex.1d.v4.u32.f32", handle, 1, &[0.5f32.to_bits()]),
            [expected],
            "{format:?} {sampling:?}"
        );
    }
    for (channels, width, kind, sampling) in [
        (3, 32, float, raw),
        (1, 8, float, raw),
        (1, 64, unsigned, raw),
        (1, 32, unsigned, normalised),
        (1, 16, float, normalised),
        (1, 32, signed, Sampling { filter: Filter::Linear, ..raw }),
    ] {
        let format = TexelFormat { channels, bits: width, kind };
        let texture = TextureDescriptor { extent: Extent::OneD(1), format, sampling, label: "odd".into() };
        let made = device.create_texture(&texture, &vec![0; format.bytes() as usize]);
        assert!(matches!(made, Err(ObjectError::Invalid { .. })), "{format:?} {sampling:?}");
    }
    for extent in [Extent::OneD(0), Extent::TwoD(1, 65_537), Extent::ThreeD(1, 1, 16_385), Extent::OneDLayered(1, 2049)]
    {
        let texture = TextureDescriptor { extent, format: FLOAT, sampling: raw, label: "odd".into() };
        assert!(matches!(device.create_texture(&texture, &[]), Err(ObjectError::Invalid { .. })), "{extent:?}");
    }
    let texture = TextureDescriptor { extent: Extent::OneD(2), format: FLOAT, sampling: raw, label: "odd".into() };
    assert!(matches!(device.create_texture(&texture, &[0; 4]), Err(ObjectError::Size { expected: 8, given: 4, .. })));
}

#[test]
fn coordinates_that_are_no_numbers_read_some_texel() {
    let device = Device::new(DeviceConfig::default());
    let modes = [AddressMode::Wrap, AddressMode::Mirror, AddressMode::Clamp, AddressMode::Border];
    let wild = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e30, -1e-40, -0.0].map(f32::to_bits);
    for mode in modes {
        for filter in [Filter::Point, Filter::Linear] {
            for normalised_coordinates in [false, true] {
                let sampling = Sampling { filter, address: [mode; 3], normalised_coordinates, ..Default::default() };
                let handle = texture(&device, Extent::OneD(3), FLOAT, sampling, &bytes_of(&[1.0, 2.0, 3.0]));
                for texel in fetch(&device, "tex.1d.v4.u32.f32", handle, 1, &wild) {
                    let value = f32::from_bits(texel[0]);
                    assert!((0.0..=3.0).contains(&value), "{sampling:?}: {value}");
                }
            }
        }
    }
}

fn surface(device: &Device, extent: Extent, format: TexelFormat, data: &[u8]) -> ObjectHandle {
    let surface = SurfaceDescriptor { extent, format, label: "canvas".into() };
    device.create_surface(&surface, data).expect("a surface")
}

#[test]
fn surfaces_are_written_read_and_reduced() {
    let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
    let word = TexelFormat { channels: 1, bits: 32, kind: ChannelKind::Unsigned };
    let canvas = surface(&device, Extent::TwoD(5, 3), word, &[0; 60]);
    // Lane l writes 100 + l to column l % 5 of row l / 5.
    let body = "rem.u32 %r1, %r0, 5; div.u32 %r2, %r0, 5; shl.b32 %r1, %r1, 2; add.u32 %r3, %r0, 100;
        sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r3};";
    launch(&device, body, canvas.0, &[], 1, 15).expect("no fault");
    let mut data = [0; 60];
    device.read_object(canvas, &mut data).expect("a surface");
    let words: Vec<u32> = data.chunks(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    assert_eq!(words, (100..115).collect::<Vec<_>>());

    // A texture of the same memory sees it.
    let view = device.texture_of(canvas, Sampling::default()).expect("a texture");
    let found = fetch(&device, "tex.2d.v4.u32.f32", view, 2, &[4.5f32.to_bits(), 2.5f32.to_bits()]);
    assert_eq!(found, [[114, 0, 0, 0]]);

    // Every lane adds to one place, and takes the largest at another.
    let body = "mov.u32 %r1, 4; mov.u32 %r2, 1; mov.u32 %r3, 8; sub.s32 %r4, 20, %r0;
        sured.b.add.2d.u32.trap [%rd1, {%r1, %r2}], %r0;
        sured.b.min.2d.s32.trap [%rd1, {%r3, %r2}], %r4;
        sured.b.add.2d.u32.zero [%rd1, {%r1, %r4}], %r0;";
    launch(&device, body, canvas.0, &[], 1, 32).expect("no fault");
    device.read_object(canvas, &mut data).expect("a surface");
    assert_eq!(u32::from_le_bytes(data[24..28].try_into().unwrap()), 106 + 496 + 19);
    assert_eq!(i32::from_le_bytes(data[28..32].try_into().unwrap()), -11);

    // Bytes, vectors, slices and layers; what is beyond the edge.
    let four = TexelFormat { channels: 4, bits: 16, kind: ChannelKind::Unsigned };
    let data: Vec<u8> = (0..3 * 2 * 2 * 8).collect();
    let body = "mov.u32 %r1, 8; mov.u32 %r2, 1; mov.u32 %r3, 9; mov.u32 %r4, -3; mad.wide.u32 %rd3, %r0, 0, %rd3;
        suld.b.3d.v4.b16.trap {%h1, %h2, %h3, %h4}, [%rd1, {%r1, %r2, %r2, %r2}];
        mov.b32 %r5, {%h1, %h4}; st.global.b32 [%rd3], %r5;
        suld.b.3d.b8.trap %h1, [%rd1, {%r3, %r2, %r2, %r2}]; cvt.u32.u16 %r5, %h1; st.global.b32 [%rd3+4], %r5;
        suld.b.3d.v2.b32.zero {%r6, %r7}, [%rd1, {%r1, %r4, %r2, %r2}]; st.global.b32 [%rd3+8], %r6;
        suld.b.3d.b64.clamp %rd5, [%rd1, {%r4, %r3, %r3, %r2}]; st.global.b64 [%rd3+16], %rd5;
        sust.b.3d.b32.zero [%rd1, {%r4, %r1, %r2, %r2}], %r1;";
    let volume = surface(&device, Extent::ThreeD(3, 2, 2), four, &data);
    let found = launch(&device, body, volume.0, &[], 6, 1).expect("no fault");
    let at = 8 + 24 + 48;
    assert_eq!(found[0], u32::from_le_bytes([at, at + 1, at + 6, at + 7]));
    assert_eq!((found[1], found[2]), (u32::from(at) + 1, 0));
    assert_eq!(found[4], u32::from_le_bytes([72, 73, 74, 75]));
    let layers = surface(&device, Extent::TwoDLayered(3, 2, 2), four, &data);
    let body = "mov.u32 %r1, 16; mov.u32 %r2, 1; mov.u32 %r3, 0;
        suld.b.a2d.b32.trap %r5, [%rd1, {%r2, %r1, %r3, %r3}]; st.global.b32 [%rd3], %r5;";
    let found = launch(&device, body, layers.0, &[], 1, 1).expect("no fault");
    assert_eq!(found[0], u32::from_le_bytes([64, 65, 66, 67]));
    let mut back = vec![0; data.len()];
    device.read_object(volume, &mut back).expect("a surface");
    assert_eq!(back, data);
    device.write_object(volume, &vec![1; data.len()]).expect("a surface");
    device.read_object(volume, &mut back).expect("a surface");
    assert_eq!(back, vec![1; data.len()]);
}

#[test]
fn queries_tell_the_shape() {
    let device = Device::new(DeviceConfig::default());
    let sampling = Sampling { normalised_coordinates: true, ..Default::default() };
    let photo = texture(&device, Extent::TwoDLayered(5, 4, 3), FLOAT, sampling, &[0; 240]);
    let ask = |mnemonic: &str, of: ObjectHandle, what: &str| {
        let body = format!("{mnemonic}.{what}.b32 %r1, [%rd1]; st.global.b32 [%rd3], %r1;");
        launch(&device, &body, of.0, &[], 1, 1).map(|words| words[0])
    };
    for (what, value) in [
        ("width", 5),
        ("height", 4),
        ("depth", 1),
        ("array_size", 3),
        ("num_mipmap_levels", 1),
        ("normalized_coords", 1),
    ] {
        assert_eq!(ask("txq", photo, what), Ok(value), "{what}");
    }
    let canvas = surface(&device, Extent::ThreeD(2, 3, 4), FLOAT, &[0; 96]);
    assert_eq!(["width", "height", "depth"].map(|what| ask("suq", canvas, what)), [Ok(2), Ok(3), Ok(4)]);
    assert_eq!(ask("txq", canvas, "width").expect_err("no texture").kind, FaultKind::InvalidHandle);
    assert_eq!(ask("suq", photo, "width").expect_err("no surface").kind, FaultKind::InvalidHandle);
}

#[test]
fn what_is_wrong_with_a_handle_is_a_fault() {
    for sanitize in [false, true] {
        let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
        let photo = texture(&device, Extent::TwoD(2, 2), FLOAT, Sampling::default(), &[0; 16]);
        let canvas = surface(&device, Extent::TwoD(2, 2), FLOAT, &[0; 16]);
        let gone = texture(&device, Extent::TwoD(2, 2), FLOAT, Sampling::default(), &[0; 16]);
        device.destroy_object(gone).expect("a texture");
        assert!(matches!(device.destroy_object(gone), Err(ObjectError::Handle { .. })));
        assert!(device.texture_of(photo, Sampling::default()).is_err());
        let line = texture(&device, Extent::Linear(4), FLOAT, Sampling::default(), &[0; 16]);
        let read = "mov.f32 %f5, 0f00000000; tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];";
        let read_line = "mov.f32 %f5, 0f00000000; tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5}];";
        let write = "mov.u32 %r1, 4; sust.b.2d.b32.trap [%rd1, {%r1, %r1}], {%r1};";
        let crooked = "mov.u32 %r1, 2; mov.u32 %r2, 0; suld.b.2d.b32.trap %r3, [%rd1, {%r1, %r2}];";
        use FaultKind::*;
        for (body, handle, kind, message) in [
            (read, 0, InvalidHandle, "0x0 is no handle of a texture or surface"),
            (read, u64::MAX, InvalidHandle, "0xffffffffffffffff is no handle of a texture or surface"),
            (read, canvas.0, InvalidHandle, "`canvas` is a surface, where a texture is read"),
            (write, photo.0, InvalidHandle, "`photo` is a texture, where a surface is used"),
            (read, line.0, InvalidHandle, "`photo` has the geometry .1d, where the instruction's is .2d"),
            (
                read_line,
                line.0,
                InvalidHandle,
                "`photo` is linear memory, which only whole numbers index (`tex1Dfetch`)",
            ),
            (read, gone.0, UseAfterFree, "has been destroyed"),
            (
                write,
                canvas.0,
                OutOfBounds,
                "4 bytes at byte 4 of row 4 of the surface `canvas`, which has 8 bytes per row, 2 rows",
            ),
            (crooked, canvas.0, Misaligned, "misaligned read of 4 bytes"),
        ] {
            let fault = launch(&device, body, handle, &[], 1, 3).expect_err(message);
            assert_eq!((fault.kind, fault.threads), (kind, 3), "{fault}");
            assert!(fault.message.contains(message), "{fault}");
        }
    }
}

#[test]
fn races_on_a_surface_are_found_and_reads_are_counted() {
    let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
    let canvas = surface(&device, Extent::TwoD(2, 2), FLOAT, &[0; 16]);
    let body = "mov.u32 %r1, 4; mov.u32 %r2, 1; sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r0};";
    let fault = launch(&device, body, canvas.0, &[], 1, 2).expect_err("two threads write one texel");
    assert_eq!(fault.kind, FaultKind::GlobalRace);

    let linear = Sampling { filter: Filter::Linear, ..Default::default() };
    let photo = texture(&device, Extent::TwoD(64, 4), FLOAT, linear, &[0; 1024]);
    let ptx = ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 h) { .reg .f32 %f<9>; .reg .b32 %r<3>; .reg .b64 %rd<3>;
        ld.param.u64 %rd1, [h]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f5, %r1; mov.f32 %f6, 0f40000000;
        tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}]; ret; }";
    let module = device.load(&Module::from_ptx(ptx, "t.ptx").expect("PTX")).expect("a module");
    let config = LaunchConfig { block: [32, 1, 1], ..Default::default() };
    let observe = Observe { profile: true, ..Default::default() };
    let observation =
        module.kernel("k").expect("a kernel").observe(&config, &[photo.into()], &observe).expect("no fault");
    // Between texels in both directions: four texels, each a request of 32 neighbouring words; only the first is one to the left.
    let total = observation.profile.expect("a profile").counters;
    assert_eq!(total.global_load_requests, 4);
    assert_eq!(total.global_load_sectors, 2 * 4 + 2 * 4);
}

#[test]
fn objects_count_against_the_memory_limit() {
    let device = Device::new(DeviceConfig { memory_limit: Some(1 << 20), ..Default::default() });
    let surface = SurfaceDescriptor { extent: Extent::TwoD(512, 1024), format: FLOAT, label: "large".into() };
    let made = device.create_surface(&surface, &vec![0; 2 << 20]);
    assert!(matches!(made, Err(ObjectError::Memory(ptx_sim::MemoryError::Limit { .. }))), "{made:?}");
}

/// Directions straight at the faces and at a corner's three neighbours, by the table of the Programming Guide.
#[test]
fn a_direction_meets_a_face_of_a_cube() {
    let device = Device::new(DeviceConfig::default());
    // Two cubes of 2 x 2 texels: a texel is its cube's hundreds, its face's tens, its row's and column's bits.
    let texel = |at: usize| (100 * (at / 24) + 10 * (at / 4 % 6) + at % 4) as f32;
    let data = bytes_of(&(0..48).map(texel).collect::<Vec<_>>());
    let surface = SurfaceDescriptor { extent: Extent::TwoDLayered(2, 2, 12), format: FLOAT, label: "cubes".into() };
    let surface = device.create_surface(&surface, &data).expect("a surface");
    let sampling = Sampling { normalised_coordinates: true, ..Sampling::default() };
    let cubes = device.cubes_of(surface, Extent::CubeLayered(2, 2), sampling).expect("cubes");
    let (a, b) = (0.5_f32, -0.25_f32);
    // Direction, face, and row and column of the texel: s and t are those of the table, above 0 in the second half.
    let cases = [
        ([1.0, a, b], 0, (0, 1)),      // s = -z > 0, t = -y < 0
        ([-1.0, a, b], 1, (0, 0)),     // s = z < 0, t = -y < 0
        ([a, 1.0, b], 2, (0, 1)),      // s = x > 0, t = z < 0
        ([a, -1.0, b], 3, (1, 1)),     // s = x > 0, t = -z > 0
        ([a, b, 1.0], 4, (1, 1)),      // s = x > 0, t = -y > 0
        ([a, b, -1.0], 5, (1, 0)),     // s = -x < 0, t = -y > 0
        ([3.0, -2.0, 1.0], 0, (1, 0)), // a longer direction
    ];
    for layer in 0..2 {
        let input: Vec<u32> =
            cases.iter().flat_map(|(direction, ..)| [layer].into_iter().chain(direction.map(f32::to_bits))).collect();
        let read = fetch(&device, "tex.acube.v4.f32.f32", cubes, 4, &input);
        for ((direction, face, (row, column)), texel) in cases.iter().zip(read) {
            let expected = (100 * layer + 10 * face + 2 * row + column) as f32;
            assert_eq!(f32::from_bits(texel[0]), expected, "{direction:?} in cube {layer}");
        }
    }
    // One cube has no layer in its coordinates; a filter does not leave the face.
    let one = SurfaceDescriptor { extent: Extent::TwoDLayered(2, 2, 6), format: FLOAT, label: "cube".into() };
    let one = device.create_surface(&one, &data[..96]).expect("a surface");
    let linear = Sampling { filter: Filter::Linear, ..sampling };
    let cube = device.cubes_of(one, Extent::Cube(2), linear).expect("a cube");
    let read = fetch(&device, "tex.cube.v4.f32.f32", cube, 3, &[1.0_f32, 0.0, 0.0, 1.0, 1.0, -1.0].map(f32::to_bits));
    assert_eq!([0, 1].map(|lane| f32::from_bits(read[lane][0])), [1.5, 1.0]);
    assert!(device.cubes_of(one, Extent::Cube(3), linear).is_err());
}
