/** For tests: nodes as the server tells them. */
import type { Node } from '@/api/types';

export const node = (given: Partial<Node> & Pick<Node, 'id' | 'role'>): Node => ({
  parent: null,
  parts: [],
  name: null,
  metadata: {},
  origin: given.run ? 'run' : 'client',
  run: null,
  status: 'done',
  error: null,
  siblings: [given.id],
  feedback: { up: 0, down: 0 },
  usage: null,
  seconds: null,
  created_at: '2026-01-01T00:00:00Z',
  ...given,
});
