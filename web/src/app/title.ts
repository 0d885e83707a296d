/** The name of the view in the browser's tab. */
import { useEffect } from 'react';

export function useTitle(title: string | undefined): void {
  useEffect(() => {
    document.title = title ? `${title} · Palaver` : 'Palaver';
    return () => {
      document.title = 'Palaver';
    };
  }, [title]);
}
