//! Textures and surfaces.

use super::access::AtomOp;
use super::facts::Facts;
use super::op::R;
use crate::texture::Geometry;

/// `tex` and `tld4` of an object.
#[derive(Clone, Debug)]
pub(crate) struct TextureOp {
    /// The 64-bit row of the handle.
    pub handle: R,
    pub geometry: Geometry,
    pub layer: Option<R>,
    /// One to three.
    pub coordinates: Vec<R>,
    /// Whether the coordinates are s32, numbers of texels.
    pub integer: bool,
    /// `tld4`: the channel that is gathered.
    pub gathered: Option<u8>,
    /// Rows of the four channels; `R::MAX` for the sink `_`.
    pub rows: [R; 4],
}

impl TextureOp {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read(self.coordinates.iter().copied()).read(self.layer).read([self.handle]).write(self.rows);
    }
}

/// Effect of an access beyond a surface's edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    Trap,
    /// It goes to the nearest place inside.
    Clamp,
    /// It reads zeros, and writes nothing.
    Zero,
}

#[derive(Clone, Debug)]
pub(crate) enum SurfaceAction {
    /// `suld`; `R::MAX` for the sink `_`.
    Load {
        rows: Vec<R>,
        wide: bool,
    },
    Store {
        rows: Vec<R>,
        wide: bool,
    },
    /// `sured`
    Reduce {
        op: AtomOp,
        a: R,
    },
}

/// `suld`, `sust` and `sured` of an object. The first coordinate counts bytes.
#[derive(Clone, Debug)]
pub(crate) struct SurfaceOp {
    /// The 64-bit row of the handle.
    pub handle: R,
    pub geometry: Geometry,
    pub layer: Option<R>,
    /// One to three.
    pub coordinates: Vec<R>,
    pub outside: Outside,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Elements: 1, 2 or 4.
    pub count: u8,
    pub action: SurfaceAction,
}

impl SurfaceOp {
    pub(super) fn note(&self, facts: &mut Facts) {
        match &self.action {
            SurfaceAction::Load { rows, .. } => facts.write(rows.iter().copied()),
            SurfaceAction::Store { rows, .. } => facts.read(rows.iter().copied()),
            SurfaceAction::Reduce { a, .. } => facts.read([*a]),
        };
        facts.read(self.coordinates.iter().copied()).read(self.layer).read([self.handle]);
    }

    /// Bytes of all elements together.
    pub(crate) fn total_bytes(&self) -> u64 {
        u64::from(self.bytes) * u64::from(self.count)
    }
}

/// Queried property of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectProperty {
    Width,
    Height,
    Depth,
    Layers,
    /// Levels or samples.
    One,
    NormalisedCoordinates,
}

/// `txq` and `suq`.
#[derive(Clone, Debug)]
pub(crate) struct ObjectQuery {
    pub d: R,
    /// The 64-bit row of the handle.
    pub handle: R,
    /// `suq`
    pub surface: bool,
    pub property: ObjectProperty,
}

impl ObjectQuery {
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.read([self.handle]).write([self.d]);
    }
}
