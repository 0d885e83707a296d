import { expect, test } from 'vitest';
import { inexactNumberError } from './json-input';

test('a whole number that a browser would change is refused, wherever it stands', () => {
  expect(inexactNumberError('{"id": 12345678901234567890}')).toBe(
    'The page cannot keep 12345678901234567890 exactly. Import it from a file, or write it as a text.',
  );
  expect(
    ['{"id": "12345678901234567890", "a": [9007199254740991, -0.5, 1e300]}', '"\\"12345678901234567890"'].map(
      inexactNumberError,
    ),
  ).toEqual([null, null]);
});
