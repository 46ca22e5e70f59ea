//! NVRTC's code for textures and surfaces runs on the simulator and gives the Programming Guide's results.
//!
//! Needs NVRTC and CUDA's headers; without them the test prints so and passes, unless `REQUIRE_NVRTC=1`.

use std::path::Path;

use common::compile::ship;
use ptx_sim::{
    AddressMode, Arg, ChannelKind, Device, DeviceConfig, DevicePtr, Extent, Filter, LaunchConfig, LoadedModule, Module,
    ObjectHandle, Sampling, SurfaceDescriptor, TexelFormat, TextureDescriptor,
};

const FLOAT: TexelFormat = TexelFormat { channels: 1, bits: 32, kind: ChannelKind::Float };

struct Bench {
    device: Device,
    module: LoadedModule,
}

impl Bench {
    fn floats(&self, values: &[f32]) -> DevicePtr {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let pointer = self.device.alloc(bytes.len() as u64, "floats").unwrap();
        self.device.write(pointer, bytes).unwrap();
        pointer
    }

    fn texture(&self, extent: Extent, format: TexelFormat, sampling: Sampling, data: &[u8]) -> ObjectHandle {
        let texture = TextureDescriptor { extent, format, sampling, label: "texture".into() };
        self.device.create_texture(&texture, data).unwrap()
    }

    fn surface(&self, extent: Extent, format: TexelFormat, data: &[u8]) -> ObjectHandle {
        self.device.create_surface(&SurfaceDescriptor { extent, format, label: "surface".into() }, data).unwrap()
    }

    fn launch(&self, kernel: &str, threads: u32, args: &[Arg]) {
        let config = LaunchConfig { block: [threads, 1, 1], ..Default::default() };
        let launched = self.module.kernel(kernel).unwrap().launch(&config, args);
        launched.unwrap_or_else(|error| panic!("{kernel}: {error}"));
    }

    /// The buffer's first elements.
    fn read(&self, from: DevicePtr, count: usize) -> Vec<f32> {
        let mut values = vec![0.0; count];
        self.device.read(from, bytemuck::cast_slice_mut(&mut values)).unwrap();
        values
    }
}

#[test]
fn kernels_of_textures_and_surfaces_compute() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ptx = match ship::generate(&root.join("common/tests/nvrtc/textures.cu"), &root) {
        Ok(ptx) => ptx,
        Err(error) => {
            assert!(!std::env::var("REQUIRE_NVRTC").is_ok_and(|value| value == "1"), "REQUIRE_NVRTC=1, but {error}");
            println!("skipped: {error}");
            return;
        }
    };
    let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
    let module = device.load(&Module::from_ptx(&ptx, "textures.ptx").unwrap()).unwrap();
    let bench = Bench { device, module };

    // A ramp is its own linear interpolation: in units of texels, value x + 10 y at (x + 1/2, y + 1/2).
    let ramp: Vec<f32> = (0..24).map(|at| (at % 6 + at / 6 * 10) as f32).collect();
    let data: &[u8] = bytemuck::cast_slice(&ramp);
    let smooth = Sampling { filter: Filter::Linear, ..Default::default() };
    let photo = bench.texture(Extent::TwoD(6, 4), FLOAT, smooth, data);
    // Multiples of 1/256, which the weights hold exactly.
    let places: Vec<[f32; 2]> =
        (0..40).map(|at| [0.5 + (at * 37 % 1281) as f32 / 256.0, 0.5 + (at * 91 % 769) as f32 / 256.0]).collect();
    let at = bench.floats(places.as_flattened());
    let out = bench.floats(&[f32::NAN; 96]);
    bench.launch("sample", 64, &[photo.into(), at.into(), out.into(), 40i32.into()]);
    let expected: Vec<f32> = places.iter().map(|[x, y]| (x - 0.5) + 10.0 * (y - 0.5)).collect();
    assert_eq!(bench.read(out, 40), expected);

    bench.launch("levels", 6, &[photo.into(), out.into()]);
    assert_eq!(bench.read(out, 6), (0..6).map(|x| (2 * x + 10) as f32).collect::<Vec<_>>());

    bench.launch("gather", 5, &[photo.into(), out.into()]);
    let around = |x: usize| [ramp[6 + x], ramp[7 + x], ramp[1 + x], ramp[x]];
    assert_eq!(bench.read(out, 20), (0..5).flat_map(around).collect::<Vec<_>>());

    // Bytes of four channels come back as they are.
    let colours: Vec<u8> = (0..5 * 3 * 4).map(|at| (at * 7) as u8).collect();
    let bytes = TexelFormat { channels: 4, bits: 8, kind: ChannelKind::Unsigned };
    let painting = bench.texture(Extent::TwoD(5, 3), bytes, Sampling::default(), &colours);
    bench.launch("colours", 32, &[painting.into(), out.into(), 5i32.into(), 3i32.into()]);
    let mut found = vec![0; colours.len()];
    bench.device.read(out, &mut found).unwrap();
    assert_eq!(found, colours);

    // Linear memory, with indices that miss it.
    let numbers = TextureDescriptor {
        extent: Extent::Linear(24),
        format: FLOAT,
        sampling: Sampling::default(),
        label: "numbers".into(),
    };
    let numbers = bench.device.bind_texture(&numbers, bench.floats(&ramp)).unwrap();
    let index = bench.floats(&[3, 23, 24, -1].map(|index: i32| f32::from_bits(index as u32)));
    bench.launch("fetch", 4, &[numbers.into(), index.into(), out.into()]);
    assert_eq!(bench.read(out, 4), [ramp[3], ramp[23], 0.0, 0.0]);

    // Slices and layers: there is no layer 2, so that layer 1 is read.
    let wrap = Sampling { address: [AddressMode::Wrap; 3], ..Default::default() };
    let cells = bench.texture(Extent::ThreeD(4, 3, 2), FLOAT, wrap, data);
    let layers = bench.texture(Extent::TwoDLayered(4, 3, 2), FLOAT, wrap, data);
    bench.launch("volume", 24, &[cells.into(), layers.into(), out.into()]);
    let expected = (0..24).map(|i| ramp[i] + 100.0 * ramp[(i % 3).min(1) * 12 + 4 + i % 4]).collect::<Vec<_>>();
    assert_eq!(bench.read(out, 24), expected);

    // Beyond the edges a surface reads 0.
    let from = bench.surface(Extent::TwoD(6, 4), FLOAT, data);
    let to = bench.surface(Extent::TwoD(6, 4), FLOAT, &[0; 96]);
    bench.launch("row_sums", 32, &[from.into(), to.into(), 6i32.into(), 4i32.into()]);
    let mut sums = vec![0f32; 24];
    bench.device.read_object(to, bytemuck::cast_slice_mut(&mut sums)).unwrap();
    let near =
        |at: usize| ramp[at / 6 * 6..at / 6 * 6 + 6].iter().enumerate().filter(move |(x, _)| x.abs_diff(at % 6) <= 1);
    assert_eq!(sums, (0..24).map(|at| near(at).map(|(_, value)| value).sum()).collect::<Vec<f32>>());

    let layers = bench.surface(
        Extent::TwoDLayered(4, 2, 2),
        TexelFormat { channels: 1, bits: 8, kind: ChannelKind::Unsigned },
        &[0; 16],
    );
    let pairs = TexelFormat { channels: 2, ..FLOAT };
    let volume =
        bench.surface(Extent::ThreeD(2, 2, 4), pairs, bytemuck::cast_slice(&[ramp.as_slice(), &[0.0; 8]].concat()));
    bench.launch("stack", 8, &[layers.into(), volume.into()]);
    let mut bytes = [0; 16];
    bench.device.read_object(layers, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut values = vec![0f32; 32];
    bench.device.read_object(volume, bytemuck::cast_slice_mut(&mut values)).unwrap();
    assert_eq!((&values[..16], &values[16..]), (&ramp[..16], &ramp[..16]));
}
