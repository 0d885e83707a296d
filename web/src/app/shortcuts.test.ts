import { expect, test } from 'vitest';
import { grouped, SHORTCUTS } from './shortcuts';

const run = () => {};

test('keys of a view that is not in the table are shown beside it, those in it once', () => {
  const groups = grouped([
    { id: 'next-cell', title: 'Next cell', group: 'Chat', keys: 'alt+ArrowRight', run },
    { id: 'zoom', title: 'Zoom', group: 'Traces', keys: 'z', run },
    { id: 'quiet', title: 'Without keys', group: 'Traces', run },
  ]);

  expect(groups.get('Traces')).toEqual([{ group: 'Traces', title: 'Zoom', keys: 'z' }]);
  expect([...groups.values()].flat()).toHaveLength(SHORTCUTS.length + 1);
});
