/** The first view asks once: what /api/bootstrap tells is taken over by the questions that the sidebar asks later. */
import { useQuery } from '@tanstack/react-query';
import { bootstrap, type Bootstrap, client } from '@/api/queries';
import { pinnedThreads, threadPages } from '@/threads/queries';
import { beginTour } from '@/tour/done';
import { session } from './session';

const MOST_PINNED = 20;

/** Is it there and taken over, or known not to come? */
export function useFirst(): boolean {
  const { data, isError } = useQuery(bootstrap());
  const taken = useQuery({
    queryKey: ['first'],
    enabled: data !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () => (data ? take(data) : false),
  });
  return taken.isSuccess || isError;
}

function take({ threads, pinned, project, credential, features }: Bootstrap): true {
  if (features.tour) beginTour();
  // What was asked for since is newer.
  client.setQueryData(threadPages('').queryKey, (known) => known ?? { pages: [threads], pageParams: [null] });
  if (pinned.length < MOST_PINNED) client.setQueryData(pinnedThreads().queryKey, (known) => known ?? { data: pinned, next: null });
  client.setQueryData(session().queryKey, (known) => known ?? { project, scopes: credential.scopes, key: credential.key, expires_at: null });
  return true;
}
