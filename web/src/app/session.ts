/** Who the page speaks as, and what they may do. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { api } from '@/api/client';

export const session = () => queryOptions({ queryKey: ['session'], queryFn: ({ signal }) => api('get', '/api/session', { signal }) });

/** May they change keys, connections and the like? Not as long as it is not known. */
export const useIsAdmin = (): boolean => useQuery(session()).data?.scopes.includes('admin') ?? false;
