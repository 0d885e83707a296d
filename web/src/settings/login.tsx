import type { ReactNode } from 'react';
export default function LoginPage(): ReactNode {
  return <div />;
}
