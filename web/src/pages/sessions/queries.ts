/** Queries of the session pages. */
import { infiniteQueryOptions } from '@tanstack/react-query';
import { api, type Schemas } from '@/api/client';

export type SessionRow = Schemas['SessionRow'];

export const sessionsQuery = (search: string) =>
  infiniteQueryOptions({
    queryKey: ['spans', 'sessions', search], // Invalidated by new spans.
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/sessions', { query: { search, limit: 50, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next ?? null,
    structuralSharing: false,
  });

/** Sent as a parameter, because a name may contain anything. */
export const sessionThreadQuery = (session: string) =>
  infiniteQueryOptions({
    queryKey: ['session', session],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/sessions/thread', { query: { session, limit: 100, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next,
    structuralSharing: false,
  });
