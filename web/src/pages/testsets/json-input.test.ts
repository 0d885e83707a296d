import { expect, test } from 'vitest';
import { inexactNumberError } from './json-input';

test('reports integers that JavaScript cannot represent exactly, except inside strings', () => {
  expect(inexactNumberError('{"id": 12345678901234567890}')).toBe(
    '12345678901234567890 is too large to edit here without losing digits. Import it from a file or enter it as text.',
  );
  expect(
    ['{"id": "12345678901234567890", "a": [9007199254740991, -0.5, 1e300]}', '"\\"12345678901234567890"'].map(
      inexactNumberError,
    ),
  ).toEqual([null, null]);
});
