//! Tests of bulk copies of a tensor's boxes, against their elements one by one.

use ptx_sim::{DevicePtr, OutsideFill, Swizzle, TensorElement, TensorMapDescriptor, TensorWindow};

use super::{INIT, LATE, ORDERS, Run, launch_with, numbers, rendered};

/// A tensor and a copy of one of its boxes.
struct Case {
    element: TensorElement,
    extents: Vec<u64>,
    /// Padding of each stride in bytes.
    padding: Vec<u64>,
    window: TensorWindow,
    element_strides: Vec<u32>,
    swizzle: Swizzle,
    fill: OutsideFill,
    coordinates: Vec<i32>,
    offsets: Vec<u16>,
}

impl Case {
    fn tile(element: TensorElement, extents: &[u64], sizes: &[u32], coordinates: &[i32]) -> Self {
        Self {
            element,
            extents: extents.to_vec(),
            padding: vec![0; extents.len()],
            window: TensorWindow::Tiled(sizes.to_vec()),
            element_strides: vec![1; extents.len()],
            swizzle: Swizzle::None,
            fill: OutsideFill::Zero,
            coordinates: coordinates.to_vec(),
            offsets: Vec::new(),
        }
    }

    fn strides(&self) -> Vec<u64> {
        let mut strides = vec![self.element.bits() / 8];
        for (extent, padding) in self.extents.iter().zip(&self.padding) {
            let next = (strides.last().expect("one") * extent + padding).next_multiple_of(16);
            strides.push(next);
        }
        strides
    }

    fn descriptor(&self, address: DevicePtr) -> TensorMapDescriptor {
        TensorMapDescriptor {
            strides: self.strides()[1..self.extents.len()].to_vec(),
            window: self.window.clone(),
            element_strides: self.element_strides.clone(),
            swizzle: self.swizzle,
            fill: self.fill,
            ..TensorMapDescriptor::tiled(self.element, address, &self.extents, &[])
        }
    }

    /// Coordinates of each element of the box, in the order of shared memory; written from the PTX ISA, element by element.
    fn elements(&self) -> Vec<Vec<i64>> {
        let mut all = Vec::new();
        match &self.window {
            TensorWindow::Tiled(sizes) => {
                let counts: Vec<u32> = sizes
                    .iter()
                    .zip(&self.element_strides)
                    .enumerate()
                    .map(|(at, (size, stride))| if at == 0 { *size } else { size.div_ceil(*stride) })
                    .collect();
                for number in 0..counts.iter().map(|count| u64::from(*count)).product::<u64>() {
                    let mut rest = number;
                    let mut place = Vec::new();
                    for (at, count) in counts.iter().enumerate() {
                        let stride = if at == 0 { 1 } else { self.element_strides[at] };
                        place.push(
                            i64::from(self.coordinates[at]) + (rest % u64::from(*count)) as i64 * i64::from(stride),
                        );
                        rest /= u64::from(*count);
                    }
                    all.push(place);
                }
            }
            TensorWindow::Im2col { lower, upper, channels, pixels } => {
                let last = self.extents.len() - 1;
                // All pixels of the bounding boxes of all images from the first coordinate's on, in order.
                let ranges: Vec<Vec<i64>> = (1..last)
                    .map(|at| {
                        let end = self.extents[at] as i64 - 1 + i64::from(upper[at - 1]);
                        (i64::from(lower[at - 1])..=end).step_by(self.element_strides[at] as usize).collect()
                    })
                    .collect();
                let mut visited = Vec::new();
                for image in 0..self.extents[last] as i64 + 3 {
                    let total: usize = ranges.iter().map(Vec::len).product();
                    for number in 0..total {
                        let mut rest = number;
                        let mut place = Vec::new();
                        for range in &ranges {
                            place.push(range[rest % range.len()]);
                            rest /= range.len();
                        }
                        place.push(image);
                        visited.push(place);
                    }
                }
                let start: Vec<i64> = self.coordinates[1..].iter().map(|at| i64::from(*at)).collect();
                let first = visited.iter().position(|place| *place == start).expect("it begins in the bounding box");
                for place in &visited[first..first + *pixels as usize] {
                    for channel in 0..i64::from(*channels) {
                        let mut at = vec![i64::from(self.coordinates[0]) + channel];
                        at.extend(place.iter().enumerate().map(|(dimension, pixel)| {
                            pixel + self.offsets.get(dimension).map_or(0, |offset| i64::from(*offset))
                        }));
                        all.push(at);
                    }
                }
            }
        }
        all
    }

    fn is_inside(&self, place: &[i64]) -> bool {
        place.iter().zip(&self.extents).all(|(at, extent)| (0..*extent as i64).contains(at))
    }

    /// Offset of an element in the tensor's bytes.
    fn offset(&self, place: &[i64]) -> usize {
        place.iter().zip(self.strides()).map(|(at, stride)| *at as usize * stride as usize).sum()
    }

    /// Offset of the byte in `tile`, which begins at a multiple of 1024.
    fn swizzled(&self, at: usize) -> usize {
        let (row, chunk) = (at / 128, at / 16 % 8);
        let byte = if self.swizzle == Swizzle::Bytes128Atom32Flip8 && row % 2 == 1 { (at + 8) % 16 } else { at % 16 };
        let chunk = match self.swizzle {
            Swizzle::None => chunk,
            Swizzle::Bytes32 => chunk ^ (row % 2),
            Swizzle::Bytes64 => chunk ^ (row % 4),
            Swizzle::Bytes128 => chunk ^ (row % 8),
            // The tables of PTX ISA, "Swizzling Modes".
            Swizzle::Bytes128Atom32 | Swizzle::Bytes128Atom32Flip8 => {
                [[0, 1, 2, 3, 4, 5, 6, 7], [2, 3, 0, 1, 6, 7, 4, 5], [4, 5, 6, 7, 0, 1, 2, 3], [6, 7, 4, 5, 2, 3, 0, 1]]
                    [row % 4][chunk]
            }
            Swizzle::Bytes128Atom64 => [[0, 1, 2, 3, 4, 5, 6, 7], [4, 5, 6, 7, 0, 1, 2, 3]][row % 2][chunk],
        };
        row * 128 + chunk * 16 + byte
    }

    fn opcode(&self) -> (String, String, String) {
        let im2col = matches!(self.window, TensorWindow::Im2col { .. });
        let list = |values: Vec<String>| format!("{{{}}}", values.join(", "));
        let coordinates = list(self.coordinates.iter().map(i32::to_string).collect());
        let offsets = if im2col {
            format!(", {}", list(self.offsets.iter().map(u16::to_string).collect()))
        } else {
            String::new()
        };
        (format!("{}d", self.extents.len()), coordinates, offsets)
    }

    #[track_caller]
    fn check(&self) {
        let size = self.element.bits() as usize / 8;
        let elements = self.elements();
        let bytes = elements.len() * size;
        let total = self.strides()[self.extents.len()] as usize;
        let input: Vec<u8> = (0..total).map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8).collect();
        let mut expected = vec![0; bytes];
        for (number, place) in elements.iter().enumerate() {
            for byte in 0..size {
                expected[self.swizzled(number * size + byte)] = match self.fill {
                    _ if self.is_inside(place) => input[self.offset(place) + byte],
                    OutsideFill::Zero => 0,
                    OutsideFill::Nan => [0xf7, 0x7f][byte % 2],
                };
            }
        }
        let (dimensions, coordinates, offsets) = self.opcode();
        let mode = if self.offsets.is_empty() { "tile" } else { "im2col" };
        // to shared memory by the map, and as it lies there to `out`
        let body = format!(
            "{INIT} @!%p1 bra END;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};
            cp.async.bulk.prefetch.tensor.{dimensions}.L2.global.{mode} [%rd3, {coordinates}]{offsets};
            cp.async.bulk.tensor.{dimensions}.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%r1], [%rd3, {coordinates}], [%r2]{offsets};
            W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;
            cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], {bytes};
            cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"
        );
        for asynchrony in ORDERS {
            for sanitize in [false, true] {
                let run = Run { asynchrony, sanitize, ..LATE };
                let found = launch_with(run, &body, &input, bytes as u64, |[address, _]| self.descriptor(address));
                match found {
                    Ok(found) => assert_eq!(found, expected, "{asynchrony:?}"),
                    Err(faults) => panic!("{asynchrony:?}: {}", rendered(&faults)),
                }
            }
        }
        if !self.offsets.is_empty() {
            return;
        }
        // from `in` to shared memory as it is, and by the map to `out`
        let input: Vec<u8> = numbers(bytes);
        let mut expected = vec![0xaa; total];
        // The last 16 bytes of a row are written whole, also where it ends within them.
        let beside = |number: usize, place: &[i64]| {
            let same = elements[number * size / 16 * 16 / size..number].iter();
            place[0] >= self.extents[0] as i64
                && place[1..].iter().zip(&self.extents[1..]).all(|(at, extent)| (0..*extent as i64).contains(at))
                && self.offset(place) + size <= total
                && same.into_iter().any(|place| self.is_inside(place))
        };
        let written = |(number, place): &(usize, &Vec<i64>)| self.is_inside(place) || beside(*number, place);
        for (number, place) in elements.iter().enumerate().filter(written) {
            for byte in 0..size {
                expected[self.offset(place) + byte] = input[self.swizzled(number * size + byte)];
            }
        }
        let body = format!(
            "{INIT} @!%p1 bra END;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};
            cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], {bytes}, [%r2];
            W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;
            cp.async.bulk.tensor.{dimensions}.global.shared::cta.tile.bulk_group [%rd3, {coordinates}], [%r1];
            cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"
        );
        let starts_before = self.coordinates.iter().any(|&coordinate| coordinate < 0);
        for asynchrony in ORDERS {
            let run = Run { asynchrony, sanitize: true, ..LATE };
            match launch_with(run, &body, &input, total as u64, |[_, address]| self.descriptor(address)) {
                Ok(found) => {
                    assert!(!starts_before, "{asynchrony:?}: {:?} is taken", self.coordinates);
                    assert_ne!(self.swizzle, Swizzle::Bytes128Atom32Flip8, "{asynchrony:?}");
                    assert_eq!(found, expected, "{asynchrony:?}");
                }
                Err(faults) if self.swizzle == Swizzle::Bytes128Atom32Flip8 => {
                    assert!(rendered(&faults).contains("halves of 16 bytes is for loads"));
                }
                Err(faults) if starts_before => assert!(rendered(&faults).contains("but not start before it")),
                Err(faults) => panic!("{asynchrony:?}: {}", rendered(&faults)),
            }
        }
    }
}

#[test]
fn boxes_of_tensors_are_copied_both_ways() {
    use TensorElement::{Bf16, F16, F32, F64, S32, U8, U16, U64};
    Case::tile(U8, &[100], &[32], &[16]).check();
    Case::tile(F32, &[37, 21], &[8, 5], &[12, 3]).check();
    // ragged at the end, before the start, and wholly outside
    Case::tile(F16, &[37, 21], &[16, 8], &[24, 18]).check();
    Case::tile(F16, &[37, 21], &[16, 8], &[-8, -3]).check();
    Case::tile(Bf16, &[3, 2], &[64, 4], &[-32, -1]).check();
    Case::tile(S32, &[16, 4], &[4, 4], &[100, -50]).check();
    Case::tile(U16, &[21, 5, 7], &[8, 2, 3], &[16, 4, 5]).check();
    Case { padding: vec![48, 16, 0, 0], ..Case::tile(F64, &[5, 3, 4, 2], &[4, 2, 2, 2], &[2, -1, 3, 1]) }.check();
    Case::tile(U64, &[3, 3, 3, 3, 3], &[2, 2, 2, 2, 2], &[2, 1, 2, -1, 2]).check();
    Case { fill: OutsideFill::Nan, ..Case::tile(F16, &[37, 21], &[16, 8], &[24, 18]) }.check();
    Case { fill: OutsideFill::Nan, ..Case::tile(F64, &[7, 3], &[4, 4], &[-2, -2]) }.check();
    Case { element_strides: vec![1, 2, 3], ..Case::tile(F32, &[20, 17, 9], &[4, 7, 8], &[4, -2, 1]) }.check();
    Case { element_strides: vec![8, 8], ..Case::tile(U8, &[64, 64], &[32, 33], &[0, 5]) }.check();
}

#[test]
fn boxes_are_swizzled() {
    for (swizzle, bytes) in [
        (Swizzle::Bytes32, 32),
        (Swizzle::Bytes64, 64),
        (Swizzle::Bytes128, 128),
        (Swizzle::Bytes128Atom32, 128),
        (Swizzle::Bytes128Atom32Flip8, 128),
        (Swizzle::Bytes128Atom64, 128),
    ] {
        for (element, size) in [(TensorElement::F16, 2), (TensorElement::F32, 4), (TensorElement::U8, 1)] {
            let whole = Case::tile(element, &[200, 40], &[bytes / size, 24], &[16, 3]);
            Case { swizzle, ..whole }.check();
            let ragged = Case::tile(element, &[197, 40], &[bytes / size, 24], &[192, -5]);
            Case { swizzle, ..ragged }.check();
        }
    }
    // narrower than the span
    Case { swizzle: Swizzle::Bytes128, ..Case::tile(TensorElement::F16, &[64, 64], &[32, 16], &[0, 0]) }.check();
}

#[test]
fn boxes_of_half_bytes_are_those_of_bytes() {
    let bytes = |address| TensorMapDescriptor::tiled(TensorElement::U8, address, &[48, 4], &[32, 2]);
    let halves = |address| TensorMapDescriptor::tiled(TensorElement::B4x16, address, &[96, 4], &[64, 2]);
    let copied = |map: fn(DevicePtr) -> TensorMapDescriptor, start: i32| {
        let body = format!(
            "{INIT} @!%p1 bra END;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;
            cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd3, {{{start}, 1}}], [%r2];
            W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;
            cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 64;
            cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"
        );
        launch_with(LATE, &body, &numbers(192), 64, |[address, _]| map(address)).map_err(|faults| rendered(&faults))
    };
    for start in [-16, 0, 16, 32] {
        assert_eq!(copied(halves, 2 * start), copied(bytes, start), "{start}");
        assert!(copied(bytes, start).is_ok());
    }
    let faults = copied(halves, 33).expect_err("half a byte");
    assert!(faults.contains("coordinate 0 is 33, in the middle of a byte"), "{faults}");
}

#[test]
fn a_box_starts_at_16_bytes_of_a_row() {
    let map = |address| TensorMapDescriptor::tiled(TensorElement::F16, address, &[64, 4], &[16, 4]);
    let copies = [
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd3, {X, 0}], [%r2];
        W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W0;",
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {X, 0}], [%r1];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    ];
    let before = [None, Some("coordinate 0 is -8")];
    for (copy, before) in copies.into_iter().zip(before) {
        for (start, bytes) in [(8, None), (-8, before), (4, Some("byte 8 ")), (-9, Some("byte -18 "))] {
            let body = format!("{INIT} @!%p1 bra END; {} END:", copy.replace('X', &start.to_string()));
            let found = launch_with(LATE, &body, &numbers(512), 512, |[address, _]| map(address));
            match (found, bytes) {
                (Ok(_), None) => {}
                (Err(faults), Some(text)) => assert!(rendered(&faults).contains(text), "{}", rendered(&faults)),
                (Ok(_), Some(_)) => panic!("{start} is taken"),
                (Err(faults), None) => panic!("{start}: {}", rendered(&faults)),
            }
        }
    }
}

#[test]
fn pixels_are_visited_as_a_convolution_does() {
    let case = |extents: &[u64], lower: &[i32], upper: &[i32], coordinates: &[i32], offsets: &[u16]| Case {
        window: TensorWindow::Im2col { lower: lower.to_vec(), upper: upper.to_vec(), channels: 16, pixels: 37 },
        offsets: offsets.to_vec(),
        ..Case::tile(TensorElement::F16, extents, &[], coordinates)
    };
    // a 3 × 3 filter with padding 1
    case(&[24, 9, 8, 3], &[-1, -1], &[-1, -1], &[0, -1, -1, 0], &[0, 0]).check();
    case(&[24, 9, 8, 3], &[-1, -1], &[-1, -1], &[8, 4, 3, 1], &[2, 1]).check();
    // to the last image and beyond
    case(&[24, 9, 8, 3], &[0, 0], &[0, 0], &[0, 7, 7, 2], &[0, 0]).check();
    case(&[16, 11, 4], &[-2], &[1], &[0, 3, 1], &[1]).check();
    case(&[16, 4, 5, 3, 2], &[-1, 0, -1], &[-1, 0, -1], &[0, 1, 2, 0, 0], &[1, 0, 2]).check();
    let strided = Case {
        element_strides: vec![1, 2, 2, 1],
        ..case(&[16, 9, 9, 3], &[-1, -1], &[-1, -1], &[0, 1, 1, 0], &[1, 1])
    };
    strided.check();
    Case { swizzle: Swizzle::Bytes32, ..case(&[24, 9, 8, 3], &[-1, -1], &[-1, -1], &[0, -1, -1, 0], &[1, 1]) }.check();
}
