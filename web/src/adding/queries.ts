/** What happened becomes a row. */
import { ApiError, api, type Schemas } from '@/api/client';
import { staleTestset } from '@/testsets/queries';
import { done } from '@/tour/done';
import type { Source } from './source';

export type Added = Schemas['CaseView'];
export type As = 'row' | 'script';

const TRIES = 3;

export async function newSet(name: string): Promise<string> {
  const { id } = await api('post', '/api/testsets', { body: { name } });
  return id;
}

/** One row more changes nothing that others do: who was quicker is let pass. */
export async function add(testset: string, source: Source, as: As): Promise<Added> {
  for (let tries = 1; ; tries++) {
    const { head: base } = await api('get', '/api/testsets/{testset}', { path: { testset } });
    try {
      const added = await api('post', '/api/testsets/{testset}/rows/from', { path: { testset }, body: { base, source, as, message: `From a ${source.kind}` } });
      void staleTestset(testset);
      done('case');
      return added;
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'stale_base' || tries === TRIES) throw error;
    }
  }
}

export async function takeBack({ testset, revision, row }: Added): Promise<void> {
  await api('post', '/api/testsets/{testset}/revisions', { path: { testset }, body: { base: revision, message: 'Taken back', delta: { remove: [row] } } });
  void staleTestset(testset);
}
