//! Texels that a coordinate reads, and their combination (CUDA C++ Programming Guide, "Texture Fetching").

use super::texel::{Texel, border, is_float, texel};
use super::{AddressMode, Filter, Object, Sampling};

/// Maximum texels of a filter.
pub(crate) const MAX_TEXELS: usize = 8;

/// The coordinates of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Coordinates {
    Float([f32; 3]),
    /// Texel indices.
    Integer([i32; 3]),
}

/// One texel of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Weighted {
    /// Address; `None` beyond the border.
    pub address: Option<u64>,
    pub weight: f64,
}

/// The texels of a read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Footprint {
    pub texels: [Weighted; MAX_TEXELS],
    pub count: usize,
    /// Texel beyond the border.
    outside: Texel,
}

/// The texel `at` along an axis of `size` texels; `None` beyond the border.
fn resolve(mode: AddressMode, at: i64, size: u32) -> Option<u32> {
    let size = i64::from(size);
    let found = match mode {
        AddressMode::Clamp => at.clamp(0, size - 1),
        AddressMode::Border if !(0..size).contains(&at) => return None,
        AddressMode::Border => at,
        AddressMode::Wrap => at.rem_euclid(size),
        AddressMode::Mirror => {
            let at = at.rem_euclid(2 * size);
            at.min(2 * size - 1 - at)
        }
    };
    Some(found as u32)
}

/// Whole part of a coordinate in texels. All beyond 2⁴⁰ are equal; NaN is 0.
fn whole(coordinate: f64) -> i64 {
    coordinate.floor().clamp(-1e12, 1e12) as i64
}

/// The first of two neighbouring texels, and the weight of the second: 9 bits of fixed point, 8 of them a fraction.
fn neighbours(coordinate: f64) -> (i64, f64) {
    let centre = coordinate - 0.5;
    let first = whole(centre);
    let fraction = ((centre - first as f64) * 256.0).round() / 256.0;
    (first, if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 })
}

/// A coordinate in texels, and the treatment of those outside.
fn axis(object: &Object, sampling: &Sampling, axis: usize, coordinate: f32) -> (f64, AddressMode) {
    let size = f64::from(object.extent.size()[axis]);
    let mode = sampling.address[axis];
    if sampling.normalised_coordinates {
        return (f64::from(coordinate) * size, mode);
    }
    (f64::from(coordinate), in_texels(mode))
}

/// Coordinates in texels neither wrap around nor are mirrored.
fn in_texels(mode: AddressMode) -> AddressMode {
    if mode == AddressMode::Border { mode } else { AddressMode::Clamp }
}

/// The face of a cube that a direction meets, and the place there, from 0 to 1 (CUDA C++ Programming Guide, "Cubemap Textures").
fn face([x, y, z]: [f32; 3]) -> (u32, [f32; 2]) {
    let (face, m, s, t) = if x.abs() >= y.abs() && x.abs() >= z.abs() {
        if x >= 0.0 { (0, x, -z, -y) } else { (1, -x, z, -y) }
    } else if y.abs() >= z.abs() {
        if y >= 0.0 { (2, y, x, z) } else { (3, -y, x, -z) }
    } else if z >= 0.0 {
        (4, z, x, -y)
    } else {
        (5, -z, -x, -y)
    };
    (face, [s, t].map(|at| (at / m + 1.0) / 2.0))
}

/// The texels of a read. A layer beyond the last is the last.
pub(crate) fn footprint(object: &Object, sampling: &Sampling, layer: u32, coordinates: Coordinates) -> Footprint {
    if let (true, Coordinates::Float(direction)) = (object.extent.geometry().is_cube(), coordinates) {
        let (face, [s, t]) = face(direction);
        let cubes = object.extent.layers() / 6;
        // Filters stay on their face.
        let sampling = Sampling { address: [AddressMode::Clamp; 3], normalised_coordinates: true, ..*sampling };
        let layer = 6 * layer.min(cubes - 1) + face;
        return flat(object, &sampling, layer, Coordinates::Float([s, t, 0.0]));
    }
    flat(object, sampling, layer.min(object.extent.layers() - 1), coordinates)
}

/// The texels of a read of a layer.
fn flat(object: &Object, sampling: &Sampling, layer: u32, coordinates: Coordinates) -> Footprint {
    let size = object.extent.size();
    // The texels along each axis, and the weight of the second.
    let mut along = [([Some(0), Some(0)], 0.0); 3];
    for (at, to) in along.iter_mut().enumerate().take(dimensions(object)) {
        *to = match coordinates {
            Coordinates::Integer(texel) => ([resolve(AddressMode::Border, texel[at].into(), size[at]); 2], 0.0),
            Coordinates::Float(coordinate) => {
                let (coordinate, mode) = axis(object, sampling, at, coordinate[at]);
                match sampling.filter {
                    Filter::Point => ([resolve(mode, whole(coordinate), size[at]); 2], 0.0),
                    Filter::Linear => {
                        let (first, weight) = neighbours(coordinate);
                        ([first, first + 1].map(|texel| resolve(mode, texel, size[at])), weight)
                    }
                }
            }
        };
    }
    // Integers beyond the border read zeros whatever the mode, as on an H200.
    let outside = match coordinates {
        Coordinates::Integer(_) => Texel::default(),
        Coordinates::Float(_) => border(object.format, sampling),
    };
    let mut footprint = Footprint { outside, ..Footprint::default() };
    for corner in 0..MAX_TEXELS {
        let side = [0, 1, 2].map(|at| corner >> at & 1);
        let weight: f64 = (0..3).map(|at| if side[at] == 1 { along[at].1 } else { 1.0 - along[at].1 }).product();
        if weight != 0.0 {
            let place = [0, 1, 2].map(|at| along[at].0[side[at]]);
            footprint.push(object, layer, place, weight);
        }
    }
    footprint
}

/// The four texels around a coordinate, in the order of `tld4`: below left, below right, above right, above left.
pub(crate) fn corners(object: &Object, sampling: &Sampling, layer: u32, coordinates: [f32; 2]) -> Footprint {
    let layer = layer.min(object.extent.layers() - 1);
    let size = object.extent.size();
    let along = [0, 1].map(|at| {
        let (coordinate, mode) = axis(object, sampling, at, coordinates[at]);
        let (first, _) = neighbours(coordinate);
        [first, first + 1].map(|texel| resolve(mode, texel, size[at]))
    });
    let mut footprint = Footprint { outside: border(object.format, sampling), ..Footprint::default() };
    for [x, y] in [[0, 1], [1, 1], [1, 0], [0, 0]] {
        footprint.push(object, layer, [along[0][x], along[1][y], Some(0)], 1.0);
    }
    footprint
}

/// Dimensions of a layer.
fn dimensions(object: &Object) -> usize {
    let geometry = object.extent.geometry();
    if geometry.is_cube() { 2 } else { geometry.dimensions() }
}

impl Footprint {
    fn push(&mut self, object: &Object, layer: u32, place: [Option<u32>; 3], weight: f64) {
        let address = match place {
            [Some(x), Some(y), Some(z)] => Some(object.address(layer, u64::from(x) * object.format.bytes(), y, z)),
            _ => None,
        };
        self.texels[self.count] = Weighted { address, weight };
        self.count += 1;
    }

    /// Decodes the texel `at` from its channels' bits in memory to register contents.
    fn texel(&self, object: &Object, sampling: &Sampling, at: usize, bits: &[[u64; 4]; MAX_TEXELS]) -> Texel {
        match self.texels[at].address {
            Some(_) => texel(object.format, sampling, &bits[at]),
            None => self.outside,
        }
    }

    /// Returns the result of a read: `bits` are those of the channels of each texel in memory. The sum of a filter is
    /// rounded once.
    pub(crate) fn filtered(&self, object: &Object, sampling: &Sampling, bits: &[[u64; 4]; MAX_TEXELS]) -> Texel {
        let first = self.texel(object, sampling, 0, bits);
        if self.count == 1 || !is_float(object.format, sampling) {
            return first;
        }
        let mut sums = [0.0; 4];
        for at in 0..self.count {
            let texel = self.texel(object, sampling, at, bits);
            for (sum, value) in sums.iter_mut().zip(texel) {
                *sum += self.texels[at].weight * f64::from(f32::from_bits(value));
            }
        }
        sums.map(|sum| (sum as f32).to_bits())
    }

    /// One channel of each of four texels.
    pub(crate) fn gathered(
        &self,
        object: &Object,
        sampling: &Sampling,
        channel: u8,
        bits: &[[u64; 4]; MAX_TEXELS],
    ) -> Texel {
        [0, 1, 2, 3].map(|at| self.texel(object, sampling, at, bits)[usize::from(channel) % 4])
    }
}
