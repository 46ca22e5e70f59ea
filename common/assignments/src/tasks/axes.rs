//! The axes of a kernel's output.

/// The named axes of an array in row-major order, the slowest first; none for a single value.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Axes(Vec<(String, usize)>);

impl<const N: usize> From<[(&str, usize); N]> for Axes {
    fn from(axes: [(&str, usize); N]) -> Axes {
        Axes(axes.map(|(name, extent)| (name.to_owned(), extent)).into())
    }
}

impl FromIterator<(String, usize)> for Axes {
    fn from_iter<I: IntoIterator<Item = (String, usize)>>(axes: I) -> Axes {
        Axes(axes.into_iter().collect())
    }
}

impl Axes {
    /// Each name with its extent.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, usize)> {
        self.0.iter().map(|(name, extent)| (name.as_str(), *extent))
    }

    /// The extents.
    pub fn shape(&self) -> Vec<usize> {
        self.iter().map(|(_, extent)| extent).collect()
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.iter().map(|(_, extent)| extent).product()
    }

    /// The index along each axis of the element that stands at `at` in memory.
    pub fn indices(&self, mut at: usize) -> Vec<usize> {
        let mut indices: Vec<usize> = Vec::with_capacity(self.0.len());
        for (_, extent) in self.iter().rev() {
            indices.push(at % extent);
            at /= extent;
        }
        indices.reverse();
        indices
    }

    /// That element's name: `row 1, column 4`.
    pub fn place(&self, at: usize) -> String {
        let named = self.iter().zip(self.indices(at)).map(|((name, _), index)| format!("{name} {index}"));
        named.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_named_by_its_index_along_each_axis() {
        let axes = Axes::from([("plane", 2), ("row", 3), ("column", 4)]);
        assert_eq!((axes.count(), axes.shape()), (24, vec![2, 3, 4]));
        assert_eq!(axes.place(0), "plane 0, row 0, column 0");
        assert_eq!(axes.place(23), "plane 1, row 2, column 3");
        assert_eq!(axes.place(17), "plane 1, row 1, column 1");
    }
}
