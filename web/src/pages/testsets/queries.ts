/** Queries and mutations of test sets. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { ApiError, api, type Schemas } from '@/api/client';
import { queryClient } from '@/api/queries';
import { serverPath } from '@/lib/server-path';
import { MEDIA_TYPES, type Format } from './file-preview';

export type TestsetRow = Schemas['RowView'];
export type TestsetRevision = Schemas['RevisionRow'];
export type ImportResult = Schemas['ImportView'];
export type RevisionDifference = Schemas['RowDifference'];

const FIRST_PAGE = null as string | null;
const ROWS_PER_PAGE = 100;

export const testsetPagesQuery = (search: string, archived = false) =>
  infiniteQueryOptions({
    queryKey: ['testsets', search, archived],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/testsets', { query: { search, archived, limit: 50, after: pageParam }, signal }),
    initialPageParam: FIRST_PAGE,
    getNextPageParam: (last) => last.next ?? null,
    placeholderData: keepPreviousData,
  });

export const testsetDetailQuery = (id: string) =>
  queryOptions({
    queryKey: ['testset', id],
    queryFn: ({ signal }) => api('get', '/api/testsets/{testset}', { path: { testset: id }, signal }),
  });

// Revisions never change: never refetch.

export const revisionQuery = (id: string, number: number) =>
  queryOptions({
    queryKey: ['testset-revision', id, number],
    queryFn: ({ signal }) =>
      api('get', '/api/testsets/{testset}/revisions/{revision}', {
        path: { testset: id, revision: String(number) },
        signal,
      }),
    staleTime: 'static',
  });

export const testsetRowsQuery = (id: string, number: number, search: string) =>
  infiniteQueryOptions({
    queryKey: ['testset-rows', id, number, search],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/testsets/{testset}/revisions/{revision}/rows', {
        path: { testset: id, revision: String(number) },
        query: { search, limit: ROWS_PER_PAGE, after: pageParam },
        signal,
      }),
    initialPageParam: FIRST_PAGE,
    getNextPageParam: (last) => last.next ?? null,
    staleTime: 'static',
    gcTime: 60_000,
    structuralSharing: false,
    placeholderData: keepPreviousData,
  });

export const fullRowQuery = (id: string, number: number, row: string) =>
  queryOptions({
    queryKey: ['testset-row', id, number, row],
    queryFn: ({ signal }) =>
      api('get', '/api/testsets/{testset}/revisions/{revision}/rows/{row}', {
        path: { testset: id, revision: String(number), row },
        signal,
      }),
    staleTime: 'static',
    gcTime: 60_000,
  });

export const revisionPagesQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: ['testset', id, 'revisions'],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/testsets/{testset}/revisions', {
        path: { testset: id },
        query: { limit: 50, after: pageParam },
        signal,
      }),
    initialPageParam: FIRST_PAGE,
    getNextPageParam: (last) => last.next ?? null,
  });

export const differenceQuery = (id: string, from: number, to: number) =>
  infiniteQueryOptions({
    queryKey: ['testset-diff', id, from, to],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/testsets/{testset}/diff', {
        path: { testset: id },
        query: { from: String(from), to: String(to), limit: 50, after: pageParam },
        signal,
      }),
    initialPageParam: FIRST_PAGE,
    getNextPageParam: (last) => last.next ?? null,
    staleTime: 'static',
    gcTime: 60_000,
  });

/** Refetch after a local change, without waiting for the server to announce it. */
export const invalidateTestset = (id: string): Promise<unknown> =>
  Promise.all([
    queryClient.invalidateQueries({ queryKey: ['testsets'] }),
    queryClient.invalidateQueries({ queryKey: ['testset', id] }),
  ]);

// Files

export type ImportTarget = { name: string } | { testset: string; mode: 'append' | 'replace' | 'upsert'; key?: string };

/** Upload a file. Uses XMLHttpRequest for its progress events. */
export function importFile(
  file: File,
  format: Format,
  target: ImportTarget,
  { types, onProgress, signal }: { types: string; onProgress: (fraction: number) => void; signal: AbortSignal },
): Promise<ImportResult> {
  const { testset, ...query } = 'testset' in target ? target : { testset: null, ...target };
  const path = testset === null ? '/api/testsets/import' : `/api/testsets/${encodeURIComponent(testset)}/import`;
  const request = new XMLHttpRequest();
  const stop = () => request.abort();
  signal.addEventListener('abort', stop);
  return new Promise<ImportResult>((resolve, reject) => {
    request.upload.addEventListener('progress', ({ loaded, total }) => onProgress(total ? loaded / total : 0));
    request.addEventListener('load', () => {
      const answer = parseImportResult(request.responseText);
      if (request.status < 300) return resolve(answer as ImportResult);
      const {
        code = 'unknown',
        message,
        path: errorPath,
      } = (answer as { error?: { code?: string; message?: string; path?: string } })?.error ?? {};
      return reject(
        new ApiError(request.status, code, message ?? `The server responded with status ${request.status}.`, errorPath),
      );
    });
    request.addEventListener('error', () =>
      reject(new ApiError(0, 'unreachable', 'Cannot reach the server, or it rejected the file.')),
    );
    request.addEventListener('abort', () => reject(new DOMException('The import was cancelled.', 'AbortError')));
    request.open(
      'POST',
      serverPath(
        `${path}?${new URLSearchParams({ ...query, types, message: `Imported ${file.name}`.slice(0, 1000) })}`,
      ),
    );
    request.setRequestHeader('content-type', MEDIA_TYPES[format]);
    request.send(file);
  }).finally(() => signal.removeEventListener('abort', stop));
}

function parseImportResult(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

export const exportPath = (id: string, number: number, format: Format): string =>
  serverPath(`/api/testsets/${encodeURIComponent(id)}/revisions/${number}/export?format=${format}`);
