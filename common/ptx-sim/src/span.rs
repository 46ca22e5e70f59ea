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
pub(crate) struct Lines {
    starts: Vec<u32>,
    /// Byte at which each file of the text begins, and the lines before it.
    files: Vec<(u32, u32)>,
}

impl Lines {
    /// Lines of a text whose files begin at those bytes.
    pub(crate) fn new(source: &str, files: impl Iterator<Item = usize>) -> Self {
        let starts = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at as u32 + 1);
        let starts: Vec<u32> = std::iter::once(0).chain(starts).collect();
        let before = |start: usize| starts.partition_point(|line| *line < start as u32) as u32;
        let files = files.map(|start| (start as u32, before(start))).collect();
        Self { starts, files }
    }

    /// 1-based line, in its file, of the span's first byte.
    pub(crate) fn line(&self, span: Span) -> u32 {
        let file = self.files.partition_point(|(start, _)| *start <= span.start).checked_sub(1);
        let before = file.map_or(0, |file| self.files[file].1);
        self.starts.partition_point(|start| *start <= span.start) as u32 - before
    }
}
