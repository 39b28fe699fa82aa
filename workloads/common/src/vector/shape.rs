//! The shape of a collection, and the vectors that it takes.

use qdrant_client::qdrant::Distance;

/// The largest number of a vector whose scores depend on its length: the squares of 4,096 differences of such numbers
/// have a sum in the range of single precision.
const LARGEST: f32 = 1e15;

/// The properties of a collection that cannot be changed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of dimensions of a vector.
    pub size: u32,
    /// Distance function.
    pub distance: Distance,
}

/// The reason why a collection does not take a vector.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// It has another length than those of the collection.
    #[error("must have {expected} numbers, not {found}")]
    Length { expected: usize, found: usize },
    /// It has no direction, which is all that `Cosine` compares.
    #[error("must not be zero, to which numbers below 1e-45 are rounded")]
    Zero,
    /// A number is larger than this, so a score may not be a number.
    #[error("must have only numbers from -{0:e} to {0:e}")]
    TooLarge(f32),
}

impl Shape {
    /// Returns a vector as the store gets it, so that every score of two such vectors is a number. For `Cosine` that is the
    /// unit vector: the store divides by the length in single precision, and leaves short vectors as they are.
    ///
    /// # Errors
    /// Returns the rule that the vector breaks.
    pub fn fit(self, vector: &[f32]) -> Result<Vec<f32>, Unfit> {
        let (expected, found) = (self.size as usize, vector.len());
        if found != expected {
            return Err(Unfit::Length { expected, found });
        }
        let is_cosine = self.distance == Distance::Cosine;
        let largest = if is_cosine { f32::MAX } else { LARGEST };
        if !vector.iter().all(|number| number.abs() <= largest) {
            return Err(Unfit::TooLarge(largest));
        }
        if !is_cosine {
            return Ok(vector.to_vec());
        }
        let squares = vector.iter().map(|number| f64::from(*number).powi(2));
        let length = squares.sum::<f64>().sqrt();
        if length == 0.0 {
            return Err(Unfit::Zero);
        }
        let unit = vector.iter().map(|number| f64::from(*number) / length);
        Ok(unit.map(|number| number as f32).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(size: usize, distance: Distance) -> Shape {
        let size = size.try_into().unwrap();
        Shape { size, distance }
    }

    /// Returns the score that the store calculates for two vectors, in single precision.
    fn score(distance: Distance, one: &[f32], other: &[f32]) -> f32 {
        let pairs = one.iter().zip(other);
        match distance {
            Distance::Euclid => pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt(),
            _ => pairs.map(|(a, b)| a * b).sum(),
        }
    }

    #[test]
    fn a_direction_counts_whatever_the_length() {
        let shape = shape(4, Distance::Cosine);
        for number in [f32::from_bits(1), 1e-20, 1e-5, 1.0, 1e30, f32::MAX] {
            assert_eq!(
                shape.fit(&[number, 0.0, 0.0, 0.0]),
                Ok(vec![1.0, 0.0, 0.0, 0.0])
            );
            assert_eq!(shape.fit(&[-number; 4]), Ok(vec![-0.5; 4]));
        }
        assert_eq!(shape.fit(&[0.0, -0.0, 0.0, 0.0]), Err(Unfit::Zero));
    }

    #[test]
    fn lengths_that_count_are_bounded_and_kept() {
        for distance in [Distance::Dot, Distance::Euclid] {
            let shape = shape(2, distance);
            for vector in [[0.0, 0.0], [1e-5, 3.0], [1e15, -1e15]] {
                assert_eq!(shape.fit(&vector), Ok(vector.to_vec()));
            }
            for number in [1.1e15, -1e30, f32::INFINITY, f32::NAN] {
                let refused = shape.fit(&[0.0, number]);
                assert_eq!(refused, Err(Unfit::TooLarge(1e15)), "{number}");
            }
        }
        let infinite = shape(1, Distance::Cosine).fit(&[f32::INFINITY]);
        assert_eq!(infinite, Err(Unfit::TooLarge(f32::MAX)));
        let found = shape(2, Distance::Cosine).fit(&[1.0]);
        assert_eq!(
            found,
            Err(Unfit::Length {
                expected: 2,
                found: 1
            })
        );
    }

    #[test]
    fn the_largest_scores_are_numbers() {
        for distance in [Distance::Dot, Distance::Euclid] {
            let shape = shape(4096, distance);
            let one = shape.fit(&[LARGEST; 4096]).unwrap();
            let other = shape.fit(&[-LARGEST; 4096]).unwrap();
            assert!(score(distance, &one, &other).is_finite(), "{distance:?}");
        }
    }

    proptest! {
        #[test]
        fn every_score_of_two_vectors_is_a_number(
            one in proptest::collection::vec(any::<f32>(), 3), other in proptest::collection::vec(any::<f32>(), 3)
        ) {
            for distance in [Distance::Cosine, Distance::Dot, Distance::Euclid] {
                let shape = shape(3, distance);
                if let (Ok(one), Ok(other)) = (shape.fit(&one), shape.fit(&other)) {
                    prop_assert!(score(distance, &one, &other).is_finite());
                }
            }
        }
    }
}
