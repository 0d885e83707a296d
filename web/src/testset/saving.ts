/** A draft becomes a revision; or somebody was quicker, and it is put on top of theirs. */
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import type { TestSet } from '@/api/types';
import { staleTestset, testset } from '@/testsets/queries';
import { pluralize } from '@/lib/format';
import { type Draft, drafts } from './drafts';
import { deltaOf, rebased } from './edits';

export const isStale = (error: unknown): boolean => error instanceof ApiError && error.code === 'stale_base';

/** Commit it. The set as it is then. */
export async function save(id: string, draft: Draft, message: string): Promise<TestSet> {
  await api('post', '/api/testsets/{testset}/revisions', { path: { testset: id }, body: { base: draft.base, message, delta: deltaOf(draft.edits) } });
  return fresh(id);
}

export async function restore(id: string, base: number, number: number): Promise<TestSet> {
  await api('post', '/api/testsets/{testset}/revisions', { path: { testset: id }, body: { base, message: `Revision ${number} again`, restore: number } });
  return fresh(id);
}

async function fresh(id: string): Promise<TestSet> {
  void staleTestset(id);
  return queryClient.fetchQuery({ ...testset(id), staleTime: 0 });
}

/** The same changes on the newest revision. What that means, in words. */
export async function putOnTop(id: string, draft: Draft): Promise<string> {
  const now = await fresh(id);
  const gone = new Set<string>();
  let both = 0;
  let after: string | null = null;
  do {
    const page: Awaited<ReturnType<typeof changes>> = await changes(id, draft.base, now.head, after);
    for (const row of page.rows) {
      if (row.change === 'removed') gone.add(row.id);
      const mine = draft.edits.patches.get(row.id);
      if (mine && row.change === 'changed') both += row.cells.filter(({ column }) => Object.hasOwn(mine.set, column) || mine.unset.includes(column)).length;
    }
    after = page.next;
  } while (after !== null);
  const names = new Set(now.columns.map(({ name }) => name));
  const { edits } = draft;
  drafts.rebase(id, now.head, {
    ...rebased(edits, gone),
    remove: edits.remove.filter((name) => names.has(name)),
    rename: new Map([...edits.rename].filter(([name, to]) => names.has(name) && !names.has(to))),
    columns: edits.columns.filter((name) => !names.has(name)),
  });
  const lost = [...edits.patches.keys(), ...edits.removed].filter((row) => gone.has(row)).length;
  return [
    `Your changes are on revision ${now.head} now.`,
    lost > 0 && `${pluralize(lost, 'row')} that you changed ${lost === 1 ? 'is' : 'are'} gone.`,
    both > 0 && `${pluralize(both, 'cell')} ${both === 1 ? 'was' : 'were'} changed there, too: yours will count.`,
    'Look at them, then save.',
  ].filter(Boolean).join(' ');
}

const changes = (id: string, from: number, to: number, after: string | null) =>
  api('get', '/api/testsets/{testset}/diff', { path: { testset: id }, query: { from: String(from), to: String(to), limit: 200, after } });
