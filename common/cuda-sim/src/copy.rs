//! Copies between memory of the host, memory of devices and arrays: where each side lies.

use std::ffi::c_void;

use crate::abi::{BatchedCopy, Code, Copy2d, Copy3d, CopyOperand, CopySide, Handle, Outcome, Side2d, memory_type};
use crate::array::array;
use crate::work::{Host, Place, Work};

/// Where a side lies: its first byte, and bytes from a row and from a plane to the next.
#[derive(Clone, Copy)]
struct Region {
    start: Place,
    row: usize,
    plane: usize,
}

impl CopySide {
    /// Rows in memory, `pitch` bytes apart.
    pub(crate) fn rows(place: Place, pitch: usize) -> Self {
        let (memory_type, host, device) = match place {
            Place::Host(Host(address)) => (memory_type::HOST, address.cast(), 0),
            Place::Device(address) => (memory_type::DEVICE, std::ptr::null_mut(), address),
        };
        Self { memory_type, host, device, pitch, ..Self::default() }
    }

    /// A place in an array: a byte of a row, of a slice or layer.
    pub(crate) fn in_array(array: Handle, [x_bytes, y, z]: [usize; 3]) -> Self {
        Self { memory_type: memory_type::ARRAY, array, x_bytes, y, z, ..Self::default() }
    }

    /// Where it begins, if it is no array.
    pub(crate) fn memory(&self) -> Option<Place> {
        match self.memory_type {
            memory_type::HOST => Some(Place::host(self.host)),
            memory_type::DEVICE => Some(Place::Device(self.device)),
            memory_type::UNIFIED => Some(Place::of(self.device)),
            _ => None,
        }
    }

    /// Where the copy's bytes on this side lie, which fit the array if it is one.
    fn region(&self, copy: &Copy3d) -> Outcome<Region> {
        let (base, row, rows) = match self.memory() {
            Some(memory) => (memory, if self.pitch == 0 { copy.width_bytes } else { self.pitch }, self.height),
            None if self.memory_type == memory_type::ARRAY => {
                let array = array(self.array)?;
                let ends = [self.x_bytes + copy.width_bytes, self.y + copy.height, self.z + copy.depth];
                let fits = ends.iter().zip(array.row_bytes_rows_planes()).all(|(end, size)| *end <= size);
                if !fits {
                    return Err(Code::INVALID_VALUE);
                }
                (Place::Device(array.base), array.pitch, array.rows())
            }
            None => return Err(Code::INVALID_VALUE),
        };
        let plane = row * rows;
        Ok(Region { start: base.offset(self.x_bytes + self.y * row + self.z * plane), row, plane })
    }

    /// Bytes up to the end of the array's row.
    fn left_in_row(&self) -> Outcome<usize> {
        match self.memory() {
            Some(_) => Ok(usize::MAX),
            None => array(self.array)?.row_bytes_rows_planes()[0].checked_sub(self.x_bytes).ok_or(Code::INVALID_VALUE),
        }
    }

    /// The place after `bytes`; at the end of a row, the start of the next.
    fn after(mut self, bytes: usize) -> Outcome<Self> {
        let ends = self.left_in_row()? == bytes;
        (self.x_bytes, self.y) = if ends { (0, self.y + 1) } else { (self.x_bytes + bytes, self.y) };
        Ok(self)
    }
}

impl Copy3d {
    /// A copy of rows.
    pub(crate) fn rows(to: CopySide, from: CopySide, width_bytes: usize, height: usize) -> Self {
        Self { from, to, width_bytes, height, depth: 1 }
    }

    /// The work of this copy, if it fits the arrays.
    pub(crate) fn work(self) -> Outcome<Work> {
        self.to.region(&self)?;
        self.from.region(&self)?;
        Ok(Work::Copy(self))
    }

    /// Target and source of each row.
    pub(crate) fn each_row(&self) -> Outcome<impl Iterator<Item = (Place, Place)>> {
        let (to, from, rows) = (self.to.region(self)?, self.from.region(self)?, self.height);
        let place = |side: Region, plane: usize, row: usize| side.start.offset(plane * side.plane + row * side.row);
        let each = move |plane| (0..rows).map(move |row| (place(to, plane, row), place(from, plane, row)));
        Ok((0..self.depth).flat_map(each))
    }
}

impl BatchedCopy {
    /// The copy of bytes: elements are those of an array, if one is copied, or else bytes.
    pub(crate) fn copy(&self) -> Outcome<Copy3d> {
        let Self { from, to, extent: [width, height, depth], .. } = *self;
        let operand = [from, to].into_iter().find(|operand| operand.kind == CopyOperand::ARRAY);
        let element =
            operand.map_or(Ok(1), |operand| array(operand.place as Handle).map(|array| array.texel_bytes()))?;
        if [width, height, depth].contains(&0) {
            return Err(Code::INVALID_VALUE);
        }
        let side = |CopyOperand { kind, place, shape: [x, y, z] }| {
            let or_all = |given: usize, all: usize| if given == 0 { all } else { given };
            match kind {
                CopyOperand::POINTER => {
                    let rows = CopySide::rows(Place::of(place), or_all(x, width) * element);
                    Ok(CopySide { height: or_all(y, height), ..rows })
                }
                CopyOperand::ARRAY => Ok(CopySide::in_array(place as Handle, [x * element, y, z])),
                _ => Err(Code::INVALID_VALUE),
            }
        };
        Ok(Copy3d { from: side(from)?, to: side(to)?, width_bytes: width * element, height, depth })
    }
}

impl From<&Side2d> for CopySide {
    fn from(side: &Side2d) -> Self {
        let &Side2d { x_bytes, y, memory_type, host, device, array, pitch } = side;
        Self { x_bytes, y, memory_type, host, device, array, pitch, ..Self::default() }
    }
}

impl From<&Copy2d> for Copy3d {
    fn from(copy: &Copy2d) -> Self {
        Self::rows((&copy.to).into(), (&copy.from).into(), copy.width_bytes, copy.height)
    }
}

/// A copy of bytes in the order of an array's rows: a piece for each row, of either side.
pub(crate) fn run((mut to, mut from): (CopySide, CopySide), mut bytes: usize) -> Outcome<Work> {
    let mut pieces = Vec::new();
    while bytes > 0 {
        let piece = bytes.min(to.left_in_row()?).min(from.left_in_row()?);
        pieces.push(Copy3d::rows(to, from, piece, 1).work()?);
        (to, from) = (to.after(piece)?, from.after(piece)?);
        bytes -= piece;
    }
    Ok(if pieces.len() == 1 { pieces.remove(0) } else { Work::Sequence(pieces) })
}

impl Default for CopySide {
    fn default() -> Self {
        Self {
            x_bytes: 0,
            y: 0,
            z: 0,
            lod: 0,
            memory_type: 0,
            host: std::ptr::null_mut::<c_void>(),
            device: 0,
            array: 0,
            reserved: std::ptr::null_mut(),
            pitch: 0,
            height: 0,
        }
    }
}
