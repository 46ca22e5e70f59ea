//! Byte ranges in a PTX source, and their lines.

/// A half-open byte range `[start, end)` of the PTX source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// From the start of `self` to the end of `other`.
    pub(crate) fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }
}

/// Byte offsets at which lines begin: turns a span into a line number without scanning the source again.
#[derive(Debug)]
pub(crate) struct Lines(Vec<u32>);

impl Lines {
    pub(crate) fn new(source: &str) -> Self {
        let starts = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at as u32 + 1);
        Self(std::iter::once(0).chain(starts).collect())
    }

    /// 1-based line of the span's first byte.
    pub(crate) fn line(&self, span: Span) -> u32 {
        self.0.partition_point(|start| *start <= span.start) as u32
    }
}
